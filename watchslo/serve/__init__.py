"""What people read: metrics, status, page."""
