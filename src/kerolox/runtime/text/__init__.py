"""Text formats: fastjson, properties files, and text that is safe for terminals."""
