//! Jobs that share GPUs.

use super::*;

/// A part of a GPU, in thousandths.
fn part(share: u16) -> Demand {
    Demand { gpus: 1, share: Some(share), ..cpus(1) }
}

/// The GPUs of the jobs that start, in the order of their starts.
fn started(actions: &[Action]) -> Vec<(usize, Vec<usize>)> {
    let start = |action: &Action| match action {
        Action::Start { job, lease } => Some((*job, lease.gpus.clone())),
        Action::Skip { .. } | Action::Finish => None,
    };
    actions.iter().filter_map(start).collect()
}

#[test]
fn parts_go_to_the_fullest_gpu_on_which_they_fit() {
    let specs = [part(500), part(250), part(500), part(250), part(250)].map(|demand| job(&[], demand));
    let limits = Limits { cpus: 8, jobs: 8, ..LIMITS };
    let mut scheduler = scheduler(&specs, &limits, false);
    let starts = started(&scheduler.on(Event::Begin));
    assert_eq!(starts, [(0, vec![0]), (1, vec![0]), (2, vec![1]), (3, vec![0]), (4, vec![1])]);
}

#[test]
fn memory_decides_which_gpu_has_room() {
    let wants = |share, gpu_memory| Demand { share: Some(share), gpu_memory, gpus: 1, ..cpus(1) };
    let specs = [wants(100, 6000), wants(100, 6000), wants(0, 4000), wants(0, 5000), wants(500, 0)]
        .map(|demand| job(&[], demand));
    let limits = Limits { cpus: 8, jobs: 8, gpu_memory: vec![10_000, 12_000], ..LIMITS };
    let mut scheduler = scheduler(&specs, &limits, false);
    let starts = started(&scheduler.on(Event::Begin));
    assert_eq!(starts, [(0, vec![0]), (1, vec![1]), (2, vec![0]), (3, vec![1])], "half of the memory is nowhere free");
    // A GPU with unknown memory is not shared by memory alone; a larger GPU is for jobs that need it.
    let limits = Limits { cpus: 8, jobs: 8, gpus: 3, gpu_memory: vec![24, 8], ..LIMITS };
    let whole_gpu = |gpu_memory| Demand { gpus: 1, gpu_memory, ..cpus(1) };
    let specs = [whole_gpu(4), whole_gpu(20), wants(0, 4), wants(0, 4)].map(|demand| job(&[], demand));
    let starts = started(&self::scheduler(&specs, &limits, false).on(Event::Begin));
    assert_eq!(starts, [(0, vec![2]), (1, vec![0]), (2, vec![1]), (3, vec![1])]);
}

#[test]
fn small_parts_that_keep_coming_do_not_starve_a_whole_gpu() {
    // Two long parts on different GPUs, a job that needs a whole GPU, and then many short parts.
    let mut specs: Vec<JobSpec> = (0..40).map(|_| job(&[], part(250))).collect();
    (specs[0], specs[1]) = (job(&[], part(750)), job(&[], part(500)));
    specs[2] = job(&[], Demand { gpus: 1, ..cpus(1) });
    for (spec, expected) in specs.iter_mut().zip([9, 8, 7]) {
        spec.expected = expected;
    }
    let limits = Limits { cpus: 99, jobs: 99, ..LIMITS };
    let mut scheduler = scheduler(&specs, &limits, false);
    let mut on: BTreeMap<usize, Vec<usize>> = started(&scheduler.on(Event::Begin)).into_iter().collect();
    assert_eq!(on.len(), 3, "both long ones, and a short one on the GPU that is not kept: {on:?}");
    let mut ended_jobs = 0;
    while !on.contains_key(&2) {
        // The parts of the GPU that is not kept end first, again and again.
        let kept_gpu = on[&1][0];
        let next = on.keys().copied().find(|job| *job > 2 && on[job][0] != kept_gpu).unwrap();
        on.remove(&next);
        on.extend(started(&scheduler.on(Event::Done(next))));
        ended_jobs += 1;
        assert!(ended_jobs <= 39, "it waits for all of them: {on:?}");
        if ended_jobs == 20 {
            on.remove(&1);
            on.extend(started(&scheduler.on(Event::Done(1))));
            assert!(on.contains_key(&2), "its GPU is empty: {on:?}");
        }
    }
}

#[test]
fn the_resources_of_a_job_that_waits_can_change() {
    let specs = [part(500), part(250), part(250)].map(|demand| job(&[], demand));
    let limits = Limits { cpus: 8, jobs: 8, gpus: 1, ..LIMITS };
    let mut scheduler = scheduler(&specs, &limits, false);
    assert_eq!(started(&scheduler.on(Event::Begin)).len(), 3);
    let whole_gpu = Demand { share: None, ..part(500) };
    scheduler.change(1, whole_gpu);
    assert_eq!(scheduler.on(Event::Later(1)), [], "of a job that runs they do not");
    scheduler.change(1, whole_gpu);
    assert_eq!(scheduler.on(Event::Free(1)), []);
    assert_eq!(scheduler.on(Event::Done(0)), []);
    assert_eq!(started(&scheduler.on(Event::Done(2))), [(1, vec![0])]);
    assert_eq!(scheduler.on(Event::Done(1)), [Action::Finish]);
}

#[test]
fn memory_is_kept_for_the_job_that_waits_for_it() {
    let memory = |memory| Demand { memory, ..cpus(1) };
    let mut specs = vec![job(&[], memory(60)), job(&[], memory(80)), job(&[], memory(10)), job(&[], cpus(1))];
    for (spec, expected) in specs.iter_mut().zip([9, 8, 7, 6]) {
        spec.expected = expected;
    }
    let limits = Limits { cpus: 8, gpus: 0, jobs: 8, ..LIMITS };
    let mut scheduler = scheduler(&specs, &limits, false);
    assert_eq!(scheduler.on(Event::Begin), [start(0, 1, &[]), start(3, 1, &[])], "10 would fit, but 80 is first");
    assert_eq!(scheduler.on(Event::Done(0)), [start(1, 1, &[]), start(2, 1, &[])]);
}
