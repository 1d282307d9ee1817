// What a stream tells of a job, for the job as it is shown.

export function statusOf({ phase, error }) {
  if (phase === "error") return error?.code === "CANCELLED" ? "cancelled" : "failed";
  return phase === "running" ? "processing" : phase;
}

export const hasEnded = (status) => ["completed", "failed", "cancelled"].includes(status);

/** The progress of the job after this event. */
export const progressAfter = (job, { message, data }) => ({ ...job.progress, message, percent: data?.progress ?? job.progress.percent });
