use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The longest wait we grant a service: a slip of its clock must not silence a cloud for days.
const LONGEST: Duration = Duration::from_secs(3600);

/// What `Retry-After` asks for (RFC 9110, 10.2.3): seconds, or a moment.
///
/// A moment is measured from the answer's own `Date`, so that the service's clock need not be ours.
pub(super) fn parse(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let from = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(moment).unwrap_or(now);
            Duration::try_from(moment(text)?.duration_since(from)).unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST))
}

fn moment(text: &str) -> Option<Timestamp> {
    rfc2822::parse(text.trim()).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(retry_after: &str, date: Option<&str>, expect: Option<u64>) {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
        if let Some(date) = date {
            headers.insert(DATE, date.parse().unwrap());
        }
        let now = "2026-11-30T20:00:00Z".parse().unwrap();
        assert_eq!(parse(&headers, now), expect.map(Duration::from_secs), "{retry_after}");
    }

    #[test]
    fn seconds_and_moments_are_understood() {
        check("7", None, Some(7));
        check(" 0 ", None, Some(0));
        check("Mon, 30 Nov 2026 20:00:09 GMT", None, Some(9));
        check("Mon, 30 Nov 2026 19:00:00 GMT", None, Some(0));
        check("soon", None, None);
        check("-3", None, None);
    }

    #[test]
    fn a_moment_counts_from_the_services_own_clock() {
        check("Mon, 30 Nov 2026 21:00:05 GMT", Some("Mon, 30 Nov 2026 21:00:00 GMT"), Some(5));
    }

    #[test]
    fn an_absurd_wait_is_cut() {
        check("99999999", None, Some(3600));
    }
}
