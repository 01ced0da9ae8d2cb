//! `sweep ui`.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

use clap::Args;

use super::{answer::line, print};
use crate::{
    error::{Error, Exit},
    format::say,
    store::Store,
    web,
};

#[derive(Debug, Args)]
pub(super) struct UiArgs {
    /// The port; 0 selects a free one.
    #[arg(long, value_name = "PORT", default_value_t = 7878)]
    port: u16,
    /// The address to listen on. Everyone who can reach this address can read the pages.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Let the pages stop jobs and run them again even if other machines can reach the pages; on a loopback address, this is always
    /// allowed. Each action requires the printed token.
    #[arg(long)]
    act: bool,
}

pub(super) fn ui(results: &Path, args: &UiArgs) -> Result<Exit, Error> {
    // A store that a later version has written must not be shown.
    Store::open(results)?;
    let token = (args.act || args.host.is_loopback()).then(web::secret).transpose();
    let token = token.map_err(Error::io("cannot make the token of actions"))?;
    let announce = |address: SocketAddr| {
        let _ = print(&format!("http://{address}/\n"));
        if !args.host.is_loopback() {
            say(format_args!("note: everyone who can reach {} can read the pages", args.host));
        }
        if let Some(token) = &token {
            say(format_args!("to stop jobs and run them again in the pages, open http://{address}/#token={token}"));
        }
        say(format_args!("Ctrl-C ends it"));
    };
    let program = line(results, std::iter::empty::<&str>());
    let signal = web::serve(results, program, (args.host, args.port), token.as_deref(), announce)
        .map_err(Error::io("cannot serve (another `--port` may be free; `--port 0` takes one that is)"))?;
    // Ctrl-C is how it is meant to end.
    Ok(if signal == signal_hook::consts::SIGINT { Exit::Done } else { Exit::Interrupted(signal) })
}
