"""The image: what it holds, and how it is built where there is no container engine and no base to pull."""
