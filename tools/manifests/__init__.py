"""What deploy holds that is made from other things: rights and rules from configurations, and dashboards."""
