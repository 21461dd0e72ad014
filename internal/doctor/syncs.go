package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// How long and how often fdatasync is measured. Of fewer than enoughSyncs the worst is
// said: their 99th percentile would be no other.
const (
	syncWithin  = 2 * time.Second
	mostSyncs   = 1000
	enoughSyncs = 200
	slowSync    = 50 * time.Millisecond
)

// syncs measures what every acknowledgement waits for.
func syncs(ctx context.Context, p Patient) []Finding {
	file, err := os.CreateTemp(existing(p.journalFolder()), ".doctor-")
	if err != nil {
		return []Finding{{Bad, "data folder", err.Error(), "writable", "chown it to the user that runs Muster"}}
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, 16<<10)
	var times []time.Duration
	for began := time.Now(); len(times) < mostSyncs && time.Since(began) < syncWithin && ctx.Err() == nil; {
		if _, err := file.Write(block); err != nil {
			return []Finding{{Bad, "write to the data folder", err.Error(), "", "free some disk"}}
		}
		start := time.Now()
		if err := datasync(file); err != nil {
			return []Finding{{Bad, "fdatasync", err.Error(), "", "check the disk: dmesg | tail"}}
		}
		times = append(times, time.Since(start))
	}
	return judgeSyncs(times)
}

// judgeSyncs says how long fdatasync takes; nothing where nothing was measured.
func judgeSyncs(times []time.Duration) []Finding {
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	what, slow := "worst", times[len(times)-1]
	if len(times) >= enoughSyncs {
		what, slow = "p99", times[len(times)*99/100]
	}
	f := Finding{Fine, "fdatasync", fmt.Sprintf("p50 %s, %s %s of %d", millis(times[len(times)/2]), what, millis(slow), len(times)),
		"p99 below 50 ms: every acknowledgement waits for one", ""}
	if slow > slowSync {
		f.Verdict, f.Mend = Warn, "place the journal on a faster disk: --journal DIR"
	}
	return []Finding{f}
}

// millis is a short time for people: 0.34 ms, 12 ms.
func millis(d time.Duration) string {
	ms := float64(d) / 1e6
	if ms < 10 {
		return fmt.Sprintf("%.2g ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
