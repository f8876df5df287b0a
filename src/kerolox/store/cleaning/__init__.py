"""What is deleted, when and how."""
