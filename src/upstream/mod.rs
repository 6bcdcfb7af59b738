//! One HTTP layer for every service we call: pooled clients, deadlines, size caps, limits, error texts.
