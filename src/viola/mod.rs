//! The Viola API: the client, and (later) the stand-in server.
