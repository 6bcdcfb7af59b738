//! Contrabass' passwords: base64(IV ‖ AES-CBC ciphertext, PKCS#7). The size of the key chooses the AES.

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, KeyIvInit};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::SecretString;
use zeroize::Zeroizing;

const BLOCK: usize = 16;
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a password cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CipherError {
    /// The key, not the ciphertext, is at fault.
    #[error("the encrypt key has {0} bytes; AES takes 16, 24 or 32")]
    KeyLength(usize),
    #[error("it is not base64")]
    NotBase64,
    #[error("it has {0} bytes; an IV and a ciphertext are 32, 48, 64, …")]
    Length(usize),
    /// CBC does not notice a wrong key by itself: the padding, and what a password looks like, tell.
    #[error("it cannot be decrypted with the encrypt key: the key is probably another provider's")]
    WrongKey,
}

/// The password in `text`.
pub(super) fn decrypt(key: &[u8], text: &str) -> Result<SecretString, CipherError> {
    if !matches!(key.len(), 16 | 24 | 32) {
        return Err(CipherError::KeyLength(key.len()));
    }
    let compact: String = text.split_whitespace().collect();
    let raw = BASE64.decode(compact).map_err(|_| CipherError::NotBase64)?;
    if raw.len() < 2 * BLOCK || raw.len() % BLOCK != 0 {
        return Err(CipherError::Length(raw.len()));
    }
    let (iv, ciphertext) = raw.split_at(BLOCK);
    let mut buffer = Zeroizing::new(ciphertext.to_vec());
    let length = match key.len() {
        16 => in_place::<aes::Aes128>(key, iv, &mut buffer),
        24 => in_place::<aes::Aes192>(key, iv, &mut buffer),
        _ => in_place::<aes::Aes256>(key, iv, &mut buffer),
    };
    let plain = length.and_then(|length| buffer.get(..length)).ok_or(CipherError::WrongKey)?;
    match std::str::from_utf8(plain) {
        Ok(password) if !password.is_empty() && !password.chars().any(char::is_control) => {
            Ok(SecretString::from(password))
        }
        _ => Err(CipherError::WrongKey),
    }
}

/// Decrypts in place and gives the length of the plaintext.
fn in_place<C>(key: &[u8], iv: &[u8], buffer: &mut [u8]) -> Option<usize>
where
    C: aes::cipher::BlockCipherDecrypt + aes::cipher::KeyInit,
{
    let decryptor = cbc::Decryptor::<C>::new_from_slices(key, iv).ok()?;
    decryptor.decrypt_padded::<Pkcs7>(buffer).ok().map(<[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::BlockModeEncrypt;
    use secrecy::ExposeSecret;

    const KEY: &[u8] = b"conbaEncrypt2025";
    const TEXT: &str = "dJsHjBidm1Egme0pkbTPUx6DuWoEs0tjBI+GPC34AaQPC34aCqfUBl0PKYuQAZXk";

    fn encrypt(key: &[u8; 32], plain: &[u8]) -> String {
        let iv = [9; BLOCK];
        let sealed =
            cbc::Encryptor::<aes::Aes256>::new(key.into(), &iv.into()).encrypt_padded_vec::<Pkcs7>(plain);
        BASE64.encode([&iv[..], &sealed].concat())
    }

    fn error(key: &[u8], text: &str) -> CipherError {
        decrypt(key, text).err().unwrap()
    }

    #[test]
    fn the_documented_password_is_decrypted() {
        assert_eq!(decrypt(KEY, TEXT).unwrap().expose_secret(), "CloudExpert2025!");
    }

    #[test]
    fn longer_keys_and_untidy_base64_work() {
        let mut text = encrypt(&[7; 32], "비밀번호 1".as_bytes());
        text.insert(10, '\n');
        let text = text.trim_end_matches('=');
        assert_eq!(decrypt(&[7; 32], text).unwrap().expose_secret(), "비밀번호 1");
    }

    #[test]
    fn a_key_of_another_length_is_told() {
        assert_eq!(error(b"short", TEXT), CipherError::KeyLength(5));
    }

    #[test]
    fn a_wrong_key_never_gives_a_password() {
        for wrong in 0..=255u8 {
            assert_eq!(error(&[wrong; 16], TEXT), CipherError::WrongKey, "{wrong}");
        }
    }

    #[test]
    fn a_plaintext_that_is_no_text_counts_as_a_wrong_key() {
        assert_eq!(error(&[7; 32], &encrypt(&[7; 32], b"\x00\x01\xff")), CipherError::WrongKey);
        assert_eq!(error(&[7; 32], &encrypt(&[7; 32], b"")), CipherError::WrongKey);
    }

    #[test]
    fn a_broken_ciphertext_is_told() {
        assert_eq!(error(KEY, "%%%"), CipherError::NotBase64);
        assert_eq!(error(KEY, "AAAA"), CipherError::Length(3));
        assert_eq!(error(KEY, ""), CipherError::Length(0));
    }
}
