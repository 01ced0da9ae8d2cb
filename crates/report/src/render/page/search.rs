//! The section about a search: its decisions, each with the configurations that it ranked.

use maud::{Markup, html};

use crate::{analysis::Account, format::count};

/// Of more configurations than this a decision shows the first.
const MAX_CONFIGURATIONS: usize = 200;

pub(super) fn section(accounts: &[Account]) -> Markup {
    html! {
        section id="search" {
            h2 { "Search" }
            p .note { "These results, and nothing else, decided which jobs ran." }
            @for account in accounts {
                @if account.rows.is_empty() {
                    p { (account.text) }
                } @else {
                    details open[accounts.len() == 1] {
                        summary { (account.text) }
                        div .scroll tabindex="0" role="region" aria-label=(account.text) {
                            table .sortable {
                                thead { tr { @for heading in &account.head { th scope="col" { button type="button" { (heading) } } } } }
                                tbody {
                                    @for row in account.rows.iter().take(MAX_CONFIGURATIONS) {
                                        tr { @for cell in row { td { (cell) } } }
                                    }
                                }
                            }
                        }
                        @if account.rows.len() > MAX_CONFIGURATIONS {
                            p .note { "The first " (MAX_CONFIGURATIONS) " of " (count(account.rows.len(), "configuration")) "." }
                        }
                    }
                }
            }
        }
    }
}
