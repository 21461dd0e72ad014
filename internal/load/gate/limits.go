package gate

// Limit is by how much a figure may be above the baseline's.
type Limit struct {
	Figure string  // of scenario.Figures
	Share  float64 // 0.05: a twentieth more
	Why    string
}

// Limits are all that the check decides by, and the only place where they stand. Each is
// more than runs of one build were apart on a machine that others kept busy (bench/README.md
// has the figures), so that who sees one exceeded has something to look for; and the median
// of three runs decides, see `muster load check`.
//
// What is not here informs only. disk-bytes: whole pages, as the file system rounds them.
// agent-memory and server-memory: when the collector ran. gc-share: likewise. Times are of
// the machine.
func Limits() []Limit {
	return []Limit{
		{"allocs", 0.05, "the timetable is the seed's; what is left is how results fall into commits and pages, and what the server does by the clock"},
		{"alloc-bytes", 0.15, "as allocs, and buffers that grow with the largest frame or commit of a run: with 80 results a second runs of one build are 7 % apart"},
		{"wire-bytes", 0.03, "frames are the timetable's: only a late sender changes who shares one"},
		{"journal-bytes", 0.05, "a commit has a head of its own, and compresses as one: a slower disk makes fewer and larger ones, never more (see fsyncs)"},
		{"fsyncs", 0.10, "the journal gathers for 20 ms, then syncs: at most 50 a second on any disk, 47 where one takes a millisecond"},
		{"reads", 0.10, "two for a frame that comes alone, fewer where a busy machine finds several"},
		{"writes", 0.10, "acknowledgements go with commits: as fsyncs"},
		{"cpu-ratio", 0.25, "server and loader share machine, kernel and clock; but what the loader needs for a result is not the same mix of work"},
	}
}
