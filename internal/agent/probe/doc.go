// Package probe holds the checks that are built into the agent: no package to
// install, no process to start. All is the table of them; each declares its
// arguments, from which lint, `muster explain` and docs/reference/probes.md are made.
//
// In: a name and arguments as written in a check. Out: status and text by the Nagios plug-in conventions, so that later
// steps treat probes and plug-ins alike. The state of a probe between runs (how fast a disk fills) is a Memory that the
// caller owns; it has the only lock. The only goroutines wait for file systems that may hang. Start reading at
// probe.go, then output_and_thresholds.go, then any probe.
//
// Thresholds of disk, memory and swap are lower bounds of the free share ("10%") or amount ("5GiB"); all
// others are upper bounds.
package probe
