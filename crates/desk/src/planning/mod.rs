//! The desk: a solution file as a page that plans it anew at each change.
//!
//! The page holds the edits and sends them with each request; the server reads the file, applies them, and answers what
//! the commands would print. So pages do not disturb each other, and the file may change meanwhile.
//!
//! Invariants
//! 1. The solution file is never written; what is saved or exported is new.
//! 2. A request names the address that the server has, in Host and where there is one in Origin: neither a page
//!    elsewhere nor a name that was bound to this address later gets an answer.
//! 3. What starts or writes anything carries the token that only our own page knows.
//!
//! Limits: every user of this machine can open the page.

mod edits;
mod files;
mod form;
mod planned;
mod simulated;

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use simulation::WishError;
use solution::Solution;

use crate::answer::{Answer, Asked, Reply, Site};
use edits::{Edit, Mistake, edited, mistakes};
use files::WriteError;
use simulated::Simulations;

const PAGE: &str = include_str!("page.html");
const SCRIPTS: [(&str, &str); 3] = [
    ("desk.js", include_str!("desk.js")),
    ("draw.js", include_str!("draw.js")),
    ("form.js", include_str!("form.js")),
];
const STYLE: &str = include_str!("desk.css");
/// Placeholder for the token in the page.
const TOKEN_PLACE: &str = "{token}";
/// Request header that carries the token.
const TOKEN_HEADER: &str = "x-proofload-token";
const TOKEN_BYTES: usize = 32;

/// Web page on which a user edits and plans one solution file.
pub struct Desk {
    file: PathBuf,
    address: SocketAddr,
    token: String,
    simulations: Simulations,
}

/// Body of a request: edits of the solution file, parts that fail, and the name and folder for saving.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wish {
    edits: Vec<Edit>,
    lost: Vec<String>,
    name: Option<String>,
    folder: Option<String>,
}

/// Mistakes of a design, as the page gets them.
#[derive(Serialize)]
struct Errors {
    errors: Vec<Mistake>,
}

/// Answer to a request, or the answer that refuses it.
type Answered = Result<Answer, Answer>;

impl Desk {
    /// Creates the page of a solution file for a server at this address.
    ///
    /// # Errors
    /// The system provides no random token.
    pub fn new(file: &Path, address: SocketAddr) -> io::Result<Desk> {
        let mut bytes = [0; TOKEN_BYTES];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let token = bytes.iter().fold(String::new(), |mut token, byte| {
            write!(token, "{byte:02x}").expect("a string takes it");
            token
        });
        Ok(Desk { file: file.to_owned(), address, token, simulations: Simulations::default() })
    }

    /// Whether the request comes from this server's own page, or from a client that is no page (no Origin header).
    fn is_ours(&self, asked: &Asked) -> bool {
        let own = self.address.to_string();
        // A browser leaves out the port that is usual.
        let is_own = |host: &str| host == own || own.strip_suffix(":80") == Some(host);
        let from = |origin: &str| origin.strip_prefix("http://").is_some_and(is_own);
        asked.header("host").is_some_and(is_own)
            && (!asked.headers.contains_key("origin") || asked.header("origin").is_some_and(from))
    }

    fn route(&self, asked: &Asked) -> Answered {
        let (parts, _) = asked.parts();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        if asked.only_reads() {
            return self.read(&parts);
        }
        if asked.method != Method::POST {
            return Err(refused(405, "only GET and POST"));
        }
        if !asked.header(TOKEN_HEADER).is_some_and(|token| is_equal(token, &self.token)) {
            return Err(refused(
                403,
                "this request does not come from the page of this server: load it again",
            ));
        }
        let wish = || {
            serde_json::from_slice::<Wish>(&asked.body)
                .map_err(|error| refused(400, &format!("the request is no wish for a design: {error}")))
        };
        match parts.as_slice() {
            ["api", "plan"] => self.plan(&wish()?),
            ["api", "limits"] => self.limits(&wish()?),
            ["api", "simulate"] => self.simulate(&wish()?),
            ["api", "stop"] => {
                self.simulations.stop();
                Ok(json_of(&self.simulations.progress()))
            }
            ["api", "save"] => self.save(&wish()?),
            ["api", "export"] => self.export(&wish()?),
            _ => Err(refused(404, "no such page")),
        }
    }

    fn read(&self, parts: &[&str]) -> Answered {
        Ok(match parts {
            [""] => Answer::page(PAGE.replace(TOKEN_PLACE, &self.token)),
            ["style.css"] => Answer::new("text/css; charset=utf-8", evidence::report::STYLE),
            ["desk.css"] => Answer::new("text/css; charset=utf-8", STYLE),
            ["favicon.ico"] => Answer { status: 204, ..Answer::new("image/x-icon", "") },
            ["api", "form"] => json_of(&json!({
                "file": self.file_name(),
                "sections": form::form(&self.text()?),
            })),
            ["api", "simulate"] => json_of(&self.simulations.progress()),
            [file] => match SCRIPTS.iter().find(|(name, _)| name == file) {
                Some((_, script)) => Answer::new("text/javascript; charset=utf-8", *script),
                None => return Err(refused(404, "no such page")),
            },
            _ => return Err(refused(404, "no such page")),
        })
    }

    fn plan(&self, wish: &Wish) -> Answered {
        let solution = self.edited(wish)?;
        planned::planned(&solution, &wish.lost)
            .map(|planned| json_of(&planned))
            .map_err(|error| wrong(mistakes(&error)))
    }

    /// How many mailboxes each limit allows, as `capacity --plan-only --json` prints it.
    fn limits(&self, wish: &Wish) -> Answered {
        let cases = capacity::cases(self.edited(wish)?, &[], &[]).map_err(|error| wrong(mistakes(&error)))?;
        let limits =
            capacity::by_plan(&cases).and_then(|variants| capacity::together(&cases[0].solution, variants));
        match limits {
            Ok(limits) => Ok(json_of(&limits)),
            Err(WishError::Solution(error)) => Err(wrong(mistakes(&error))),
            Err(error) => Err(refused(500, &error.to_string())),
        }
    }

    fn simulate(&self, wish: &Wish) -> Answered {
        match self.simulations.start(self.edited(wish)?) {
            Ok(true) => Ok(json_of(&self.simulations.progress())),
            Ok(false) => Err(refused(409, "a simulation goes on; stop it first")),
            Err(error) => Err(wrong(mistakes(&error))),
        }
    }

    fn save(&self, wish: &Wish) -> Answered {
        let solution = self.edited(wish)?;
        written(files::save(self.folder(), wish.name.as_deref().unwrap_or_default(), solution.text()))
    }

    fn export(&self, wish: &Wish) -> Answered {
        let solution = self.edited(wish)?;
        let files = plan::plan(&solution, &[]).and_then(|planned| plan::export(&solution, &planned));
        let files = files.map_err(|error| wrong(mistakes(&error)))?;
        written(files::export(self.folder(), wish.folder.as_deref().unwrap_or_default(), &files))
    }

    fn edited(&self, wish: &Wish) -> Result<Solution, Answer> {
        edited(&self.text()?, &self.file_name(), &wish.edits).map_err(wrong)
    }

    fn text(&self) -> Result<String, Answer> {
        std::fs::read_to_string(&self.file)
            .map_err(|error| refused(500, &format!("cannot read {}: {error}", self.file.display())))
    }

    fn file_name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }
}

impl Site for Desk {
    fn answer(&self, asked: &Asked) -> Reply {
        if !self.is_ours(asked) {
            let why = format!("only pages of this server get an answer: open http://{}/", self.address);
            return refused(403, &why).into();
        }
        self.route(asked).unwrap_or_else(|refusal| refusal).into()
    }
}

/// Constant-time comparison: its duration does not show how many bytes are equal.
fn is_equal(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    one.len() == other.len() && differs == 0
}

fn json_of(value: &impl Serialize) -> Answer {
    Answer::new("application/json", serde_json::to_vec(value).expect("answers have only text keys"))
}

/// Answer that refuses a request.
fn refused(status: u16, text: &str) -> Answer {
    Answer { status, ..json_of(&json!({ "error": text })) }
}

/// Answer for a design with mistakes. Its status is that of success, because the user is still editing.
fn wrong(errors: Vec<Mistake>) -> Answer {
    json_of(&Errors { errors })
}

fn written(written: Result<PathBuf, WriteError>) -> Answered {
    match written {
        Ok(path) => Ok(json_of(&json!({ "written": path }))),
        Err(error) => Err(refused(
            match &error {
                WriteError::Name(..) => 400,
                WriteError::Exists(_) => 409,
                WriteError::System(..) => 500,
            },
            &error.to_string(),
        )),
    }
}
