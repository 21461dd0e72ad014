package report

import (
	"runtime"
)

// Inside is what was read from within the server, over the measured span. It is left out
// where the server was not asked, or was started anew meanwhile.
type Inside struct {
	WireBytes    float64 `json:"wireBytesPerResult"`    // received from agents, keepalives and facts included; before TLS
	JournalBytes float64 `json:"journalBytesPerResult"` // of commits, as they are on disk
	Allocs       float64 `json:"allocsPerResult"`
	AllocBytes   float64 `json:"allocBytesPerResult"`
	LockWait     float64 `json:"lockWaitCores"` // goroutines that waited for a lock, mean of the span: Usage.LockShare has it as a share
	GC           float64 `json:"gcCores"`       // used by the garbage collector
	Goroutines   float64 `json:"goroutines"`    // at the end of the span
}

// Calls is how often the server called the system, per second of the measured span.
type Calls struct {
	Reads            float64 `json:"readsPerSecond"` // sockets and files, also those that found nothing
	Writes           float64 `json:"writesPerSecond"`
	Syncs            float64 `json:"syncsPerSecond"` // of the journal
	FramesPerRead    float64 `json:"framesPerRead"`
	ResultsPerCommit float64 `json:"resultsPerCommit"`
	FramesPerCommit  float64 `json:"framesPerCommit"`
}

// Disk is what the server wrote in the measured span.
type Disk struct {
	Written   int64   `json:"writtenBytes"`   // sent to storage by the process, in whole pages: write_bytes less cancelled_write_bytes of /proc/PID/io
	Journal   int64   `json:"journalBytes"`   // of that, what the journal …
	Snapshots int64   `json:"snapshotBytes"`  // … and the snapshots asked for; the rest is SQLite and the rounding up to pages
	PerResult float64 `json:"bytesPerResult"` // written
	PerDay    float64 `json:"bytesPerDay"`    // written, at this rate
	PerSecond float64 `json:"bytesPerSecond"` // written
	Syncs     float64 `json:"syncsPerSecond"` // of all files: the journal's, two for each snapshot (file and folder), one for each transaction of history
}

// Network is what went between the server and its agents in the measured span, as bytes of
// TCP, with TLS, WebSocket and all; the headers of TCP and IP are not in it.
type Network struct {
	In  float64 `json:"inBytesPerSecond"` // to the server
	Out float64 `json:"outBytesPerSecond"`
}

// MachineShare is that of the server and of the loaders on this machine, of all its cores.
func MachineShare(server, loader Usage) float64 {
	return (server.Cores + loader.Here()) / float64(runtime.NumCPU())
}

// Here is what was used of this machine's cores.
func (u Usage) Here() float64 { return u.Cores - u.Elsewhere }
