//! axum servers: the inventory routes, health, and what the tree looks like now.
