"""Messages in memory and as encoded records; the store writes records, clients read them."""
