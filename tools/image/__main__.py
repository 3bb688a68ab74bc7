"""`python -m tools.image [REVISION]` builds the image of this checkout and prints its name, id and size."""

import sys

from tools.image.build import NAME, ImageError, build, size, unpacked


def main() -> int:
    """Build the image; prints its size, or one sentence that says why the build failed."""
    try:
        image = build(sys.argv[1] if len(sys.argv) > 1 else "unknown")
        with unpacked(image) as root:
            print(f"{NAME}:latest  {image}  {size(root) / 1e6:.0f} MB")
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
