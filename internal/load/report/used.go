package report

// Inside holds the server's own metrics over the measured span. It is absent if the server was not asked, or was
// restarted meanwhile.
type Inside struct {
	WireBytes    float64 `json:"wireBytesPerResult"`    // received from agents, keepalives and facts included; before TLS
	JournalBytes float64 `json:"journalBytesPerResult"` // of commits, as they are on disk
	Allocs       float64 `json:"allocsPerResult"`
	AllocBytes   float64 `json:"allocBytesPerResult"`
	GC           float64 `json:"gcCores"`    // used by the garbage collector
	Goroutines   float64 `json:"goroutines"` // at the end of the span
}

// Calls counts the system calls of the server, per second of the measured span.
type Calls struct {
	Reads            float64 `json:"readsPerSecond"` // sockets and files, also those that found nothing
	Writes           float64 `json:"writesPerSecond"`
	Syncs            float64 `json:"syncsPerSecond"` // of the journal
	FramesPerRead    float64 `json:"framesPerRead"`
	ResultsPerCommit float64 `json:"resultsPerCommit"`
}

// Disk counts the bytes that the server wrote in the measured span.
type Disk struct {
	Written   int64   `json:"writtenBytes"`   // sent to storage by the process, in whole pages: write_bytes less cancelled_write_bytes of /proc/PID/io
	Journal   int64   `json:"journalBytes"`   // of that, what the journal …
	Snapshots int64   `json:"snapshotBytes"`  // … and the snapshots asked for; the rest is SQLite and the rounding up to pages
	PerResult float64 `json:"bytesPerResult"` // written
	PerDay    float64 `json:"bytesPerDay"`    // written, at this rate
	PerSecond float64 `json:"bytesPerSecond"` // written
	Syncs     float64 `json:"syncsPerSecond"` // of all files: the journal's, two for each snapshot (file and folder), one for each transaction of history
}

// Network counts the bytes between the server and its agents in the measured span, with TLS and WebSocket but without
// TCP and IP headers.
type Network struct {
	In  float64 `json:"inBytesPerSecond"` // to the server
	Out float64 `json:"outBytesPerSecond"`
}

// machineShare returns the share of all cores of the first loader's machine that the server and the loaders there used.
func (rep *Report) machineShare() float64 {
	return ratio(rep.Server.Cores+rep.Loader.Here(), float64(rep.Machine.Cores))
}

// Here returns the cores used on this machine.
func (u Usage) Here() float64 { return u.Cores - u.Elsewhere }

// Totals sums the counts of a target's agents.
type Totals struct {
	Ready     int    `json:"-"`        // agents that the system knew and made work, ever
	Connected int    `json:"-"`        // now
	Requests  uint64 `json:"requests"` // to make a result
	Dropped   uint64 `json:"dropped"`  // of them, not followed, because the protocol says so or the run had ended
	Missed    uint64 `json:"missed"`   // that should have come between two that came, or since the last one or none, and did not
	Sent      uint64 `json:"sent"`     // results given to connections …
	Written   uint64 `json:"written"`  // … and taken whole
	Alive     uint64 `json:"alive"`    // keepalives, which are no results
	Lost      uint64 `json:"lost"`     // connections that ended by themselves
	Failed    uint64 `json:"failed"`   // connections that were not opened: they are tried again
}

// Targeted holds what a report tells about a system other than Muster.
type Targeted struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Totals
}

// Asked reports whether the system asks its agents for results: then rates and latencies count sent results, from the
// time of the request.
func (rep *Report) Asked() bool { return rep.Targeted != nil }
