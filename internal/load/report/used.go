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
