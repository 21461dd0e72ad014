package load

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

// SystemCall is how often the server called the system in one way, in some seconds of
// the run, as the kernel counted or a tracer saw. A kernel's count knows no errors and no times.
type SystemCall struct {
	Name      string  `json:"name"`
	Count     uint64  `json:"count"`
	Errors    uint64  `json:"errors,omitempty"`
	PerResult float64 `json:"perResult"`
	Share     float64 `json:"share"` // of the time spent in the system, 0 to 1; of a tracer only
}

// inside makes figures of what the server's metrics gained.
func (rep *Report) inside(g *gained) *Inside {
	if g.length <= 0 || rep.Results == 0 || g.anew || len(g.first.metrics) == 0 || len(g.last.metrics) == 0 {
		return nil
	}
	seconds := g.length.Seconds()
	each := func(name string) float64 { return g.metrics[name] / float64(rep.Results) }
	return &Inside{
		WireBytes: each("muster_session_bytes_received_total"), JournalBytes: each("muster_journal_written_bytes_total"),
		Allocs: each("go_memstats_mallocs_total"), AllocBytes: each("go_memstats_alloc_bytes_total"),
		LockWait: g.metrics[waitMetric] / seconds, GC: g.metrics["go_cpu_classes_gc_total_cpu_seconds_total"] / seconds,
		Goroutines: g.last.metrics["go_goroutines"],
	}
}
