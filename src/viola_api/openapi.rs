//! What the document of the Viola test API says.

use utoipa::openapi::{Info, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use super::PATH;
use super::api;
use crate::http::openapi::{Example, bare_document, with_examples};

/// Answers as they were given: the tests compare them with the real ones.
const EXAMPLES: [Example; 4] = [
    (PATH, "200", include_str!("../../tests/golden/viola-200.json")),
    (PATH, "207", include_str!("../../tests/golden/viola-207.json")),
    (PATH, "400", include_str!("../../tests/golden/viola-400.json")),
    (PATH, "500", include_str!("../../tests/golden/viola-500.json")),
];

/// All of it.
pub(super) fn document() -> OpenApi {
    let mut info = Info::new("Viola test API", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Stands in for Viola: makes `MultiNicNodeConfig` objects of what multinic-operator posts.".to_owned(),
    );
    let routes = OpenApiRouter::with_openapi(bare_document(info)).merge(api::admitted()).merge(api::open());
    with_examples(routes.into_openapi(), &EXAMPLES)
}

/// The POST alone, for the document of who sends it.
pub(crate) fn post_document() -> OpenApi {
    with_examples(api::admitted().into_openapi(), &EXAMPLES)
}
