"""HyperQueue running `true`: a server and one worker on this machine, and one job with as many tasks.

    hyperqueue_true.py TASKS CORES [FOLDER]

Prints the seconds from the submission to the end of the last task. The Python package has neither a journal nor the other options of
the program `hq`; outputs are not kept. With FOLDER, the server's files are there.
"""

import os
import sys
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def main() -> None:
    tasks, cores = int(sys.argv[1]), int(sys.argv[2])
    folder = sys.argv[3] if len(sys.argv) > 3 else None
    # Its progress bar and logs are not of interest.
    sys.stderr = open(os.devnull, "w")
    with LocalCluster(folder, WorkerConfig(cores=cores)) as cluster:
        client = cluster.client()
        job = Job()
        for _ in range(tasks):
            job.program(["sh", "-c", "true"], stdout=None, stderr=None)
        begun = time.perf_counter()
        client.wait_for_jobs([client.submit(job)])
        print(time.perf_counter() - begun)


main()
