//! What stands before Neutron, and what it does with a long URL.

use super::exchange::{Answer, Call};

/// The front ends that were measured. Lengths are those of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontEnd {
    /// Takes any length.
    #[default]
    Unlimited,
    /// uWSGI with this `buffer-size` (its default is 4096): it keeps the target and
    /// the query string beside the headers. Too long closes the connection, and
    /// there is a range in which only the filter is lost: 200 with all ports.
    Uwsgi(usize),
    /// Neutron's own server: 414 with an empty body.
    Eventlet,
    /// 414 with HTML.
    Nginx,
    /// 414 with HTML.
    Apache,
    /// 400 with HTML.
    Haproxy,
    /// A status with an empty body for targets beyond this many bytes.
    Limit(usize, u16),
}

/// Bytes of the variables that uWSGI makes beside the request's own.
const UWSGI_VARIABLES: usize = 200;
/// The part of them that is in the buffer before the query string.
const UWSGI_FIRST_VARIABLES: usize = 100;
/// The longest request line of eventlet, nginx and Apache.
const REQUEST_LINE: usize = 8190;
/// HAProxy's `tune.bufsize` without `tune.maxrewrite`, less what it adds itself.
const HAPROXY_BUFFER: usize = 15_235;

/// What becomes of a request.
pub(crate) enum Passage {
    Through,
    FilterLost,
    Refused(Answer),
}

impl FrontEnd {
    pub(crate) fn pass(self, call: &Call) -> Passage {
        let target = call.target.len();
        let line = target + "GET  HTTP/1.1".len();
        match self {
            Self::Unlimited => Passage::Through,
            Self::Uwsgi(buffer) => uwsgi(buffer, target, call.raw_query().len(), call.header_bytes()),
            Self::Eventlet if line > REQUEST_LINE => Passage::Refused(Answer::empty(414)),
            Self::Nginx if line > REQUEST_LINE => {
                Passage::Refused(Answer::text(414, "text/html", NGINX.into()))
            }
            Self::Apache if line > REQUEST_LINE => {
                Passage::Refused(Answer::text(414, "text/html; charset=iso-8859-1", APACHE.into()))
            }
            Self::Haproxy if line + call.header_bytes() > HAPROXY_BUFFER => {
                let answer = Answer::text(400, "text/html", HAPROXY.into());
                Passage::Refused(answer.header("Cache-Control", "no-cache"))
            }
            Self::Limit(limit, status) if target > limit => Passage::Refused(Answer::empty(status)),
            _ => Passage::Through,
        }
    }
}

fn uwsgi(buffer: usize, target: usize, query: usize, headers: usize) -> Passage {
    let headers = headers + UWSGI_VARIABLES;
    if target + headers > buffer {
        Passage::Refused(Answer::closed())
    } else if target + query + UWSGI_FIRST_VARIABLES > buffer {
        Passage::FilterLost
    } else if target + query + headers > buffer {
        Passage::Refused(Answer::closed())
    } else {
        Passage::Through
    }
}

const NGINX: &str = "<html>\r\n<head><title>414 Request-URI Too Large</title></head>\r\n<body>\r\n\
<center><h1>414 Request-URI Too Large</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n";

const APACHE: &str = "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
<html><head>\n<title>414 Request-URI Too Long</title>\n</head><body>\n<h1>Request-URI Too Long</h1>\n\
<p>The requested URL's length exceeds the capacity\nlimit for this server.<br />\n</p>\n</body></html>\n";

const HAPROXY: &str =
    "<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body></html>\n";
