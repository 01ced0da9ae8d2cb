//! The program as a user runs it: real files, real processes, mock jobs. No test here needs the lab.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[macro_use]
mod messages;

mod aggregates;
mod aliases;
mod analyses;
mod answers;
mod at_once;
mod best;
mod bundles;
mod cache;
mod claims;
mod command;
mod commands;
mod composition;
mod concurrency;
mod conditions;
mod cookbook;
mod cutoff;
mod decisions;
mod demo;
mod design;
mod diff;
mod doctor;
mod effects;
mod environment;
mod explains;
mod exports;
mod faults;
mod figure_keys;
mod figures;
mod fingerprints;
mod flow;
mod forty;
mod gallery;
mod gpus;
mod gridengine;
mod home;
mod hostile;
mod init;
mod inputs;
mod integrity;
mod items;
mod kubernetes;
mod leaderboard;
mod log;
mod looks;
mod manifests;
mod matrices;
mod measure;
mod measured;
mod mistakes;
mod moments;
mod no_effect;
mod nodes;
mod observation;
mod page;
mod policies;
mod programs;
mod programs_numbers;
mod programs_ranks;
mod programs_reads;
mod programs_stop;
mod projects;
mod propose;
mod protocol;
#[cfg(feature = "remote")]
mod pulls;
mod query;
#[cfg(feature = "remote")]
mod ray;
mod reads;
#[cfg(feature = "remote")]
mod remote;
mod replication;
mod reports;
mod runs;
mod sandbox;
mod scales;
mod scripts;
mod seal;
mod search;
mod search_figures;
mod search_views;
mod searches;
mod searches_programs;
mod seeds;
mod sentences;
#[cfg(feature = "ui")]
mod serve;
mod servers;
mod signals;
mod slurm;
mod spellings;
mod ssh;
mod states;
mod summaries;
mod tables;
mod takeover;
mod tasks;
mod terminal;
mod traces;
mod tracking;
mod tracking_sources;
#[cfg(feature = "remote")]
mod trust;
mod units;
mod usability;
mod variants;
mod widths;
mod workers;
