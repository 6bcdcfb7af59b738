//! Contrabass: which Keystone, and the admin's encrypted password.

use aes::cipher::{BlockModeEncrypt, KeyIvInit, block_padding::Pkcs7};
use axum::http::Method;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::exchange::{Answer, Call};
use super::service::Operation;
use super::world::World;

const PREFIX: [&str; 5] = ["v1", "contrabass", "admin", "infra", "provider"];

/// base64(IV ‖ AES-CBC with PKCS#7), as Contrabass keeps passwords. `None` unless
/// the key has 16, 24 or 32 bytes.
pub fn encrypt(key: &[u8], iv: [u8; 16], plain: &[u8]) -> Option<String> {
    let cipher = match key.len() {
        16 => {
            cbc::Encryptor::<aes::Aes128>::new_from_slices(key, &iv).ok()?.encrypt_padded_vec::<Pkcs7>(plain)
        }
        24 => {
            cbc::Encryptor::<aes::Aes192>::new_from_slices(key, &iv).ok()?.encrypt_padded_vec::<Pkcs7>(plain)
        }
        32 => {
            cbc::Encryptor::<aes::Aes256>::new_from_slices(key, &iv).ok()?.encrypt_padded_vec::<Pkcs7>(plain)
        }
        _ => return None,
    };
    Some(BASE64_STANDARD.encode([&iv[..], &cipher[..]].concat()))
}

/// The provider's id, if the path asks for one: one segment, percent-encoded.
fn provider_id(call: &Call) -> Option<String> {
    let segments = call.segments();
    let is_asked = call.method == Method::GET && segments.len() == 6 && segments[..5] == PREFIX;
    is_asked.then(|| segments[5].clone())
}

pub(crate) fn operation(call: &Call) -> Operation {
    if provider_id(call).is_some() { Operation::GetProvider } else { Operation::Other }
}

pub(crate) fn answer(world: &World, call: &Call) -> Answer {
    let Some(id) = provider_id(call) else {
        return Answer::json(404, &json!({"message": "no such path"}));
    };
    match world.providers.get(&id) {
        Some(provider) => {
            Answer::json(200, &json!({"data": {"url": provider.url, "attributes": provider.attributes}}))
        }
        None => Answer::json(404, &json!({"message": format!("provider {id} was not found")})),
    }
}

#[cfg(test)]
mod tests {
    use super::encrypt;

    #[test]
    fn the_key_must_have_an_aes_length() {
        for length in 0..40 {
            let is_some = encrypt(&vec![7; length], [0; 16], b"secret").is_some();
            assert_eq!(is_some, [16, 24, 32].contains(&length), "{length} bytes");
        }
    }

    #[test]
    fn the_iv_comes_first_and_the_rest_is_padded_to_blocks() {
        use base64::Engine;
        let text = encrypt(b"conbaEncrypt2025", [9; 16], b"sixteen bytes ok").unwrap_or_default();
        let raw = base64::prelude::BASE64_STANDARD.decode(text).unwrap();
        assert_eq!(raw[..16], [9; 16]);
        assert_eq!(raw.len(), 16 + 32, "a full block gets a block of padding");
    }
}
