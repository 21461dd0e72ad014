package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	syncPeriod = 2 * time.Second       // longest measurement of fdatasync
	maxSyncs   = 1000                  // most calls in it
	minForP99  = 200                   // of fewer calls the worst is reported: it is their 99th percentile
	slowSync   = 50 * time.Millisecond // a p99 above it is a fault
)

// syncTimes measures fdatasync, for which every acknowledgement waits.
func syncTimes(ctx context.Context, p Patient) []Finding {
	file, err := os.CreateTemp(nearestFolder(p.journalFolder()), ".doctor-")
	if err != nil {
		return []Finding{{Bad, "data folder", err.Error(), "writable", "chown it to the user that runs Muster"}}
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, 16<<10)
	var times []time.Duration
	for began := time.Now(); len(times) < maxSyncs && time.Since(began) < syncPeriod && ctx.Err() == nil; {
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

// judgeSyncs rates the times of fdatasync; none gives no finding.
func judgeSyncs(times []time.Duration) []Finding {
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	name, slow := "worst", times[len(times)-1]
	if len(times) >= minForP99 {
		name, slow = "p99", times[len(times)*99/100]
	}
	f := Finding{Fine, "fdatasync", fmt.Sprintf("p50 %s, %s %s of %d", millis(times[len(times)/2]), name, millis(slow), len(times)),
		"p99 below 50 ms: every acknowledgement waits for one", ""}
	if slow > slowSync {
		f.Verdict, f.Mend = Warn, "put the journal on a faster disk: --journal DIR"
	}
	return []Finding{f}
}

// millis returns a short time for people: 0.34 ms, 12 ms.
func millis(d time.Duration) string {
	ms := float64(d) / 1e6
	if ms < 10 {
		return fmt.Sprintf("%.2g ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
