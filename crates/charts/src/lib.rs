//! Figures as SVG, PNG and PDF.

pub mod charts;

use sweep_base::format;
use sweep_stats::stats;
