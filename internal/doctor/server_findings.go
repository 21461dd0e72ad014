package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// availableMemory returns the available memory in bytes. It is the memory of the machine, or of this process's control
// groups if that is less.
func (m machineReader) availableMemory() (available int64, known bool) {
	data, err := m.read("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			available = kb << 10
		}
	}
	known = available > 0
	groups, _ := m.read("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// ID:CONTROLLERS:PATH; version 2 has 0 and no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, limit, usage := "/sys/fs/cgroup", "memory.max", "memory.current"
		switch {
		case len(parts) != 3:
			continue
		case parts[1] == "memory":
			root, limit, usage = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
		case parts[1] != "":
			continue
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			most, limited := m.readNumber(path.Join(root, at, limit))
			used, known := m.readNumber(path.Join(root, at, usage))
			if limited && known {
				available = min(available, max(most-used, 0))
			}
			if at == "/" {
				break
			}
		}
	}
	return available, known
}

const (
	syncPeriod = 2 * time.Second       // longest measurement of fdatasync
	maxSyncs   = 1000                  // most calls in it
	minForP99  = 200                   // of fewer calls the worst is reported: it is their 99th percentile
	slowSync   = 50 * time.Millisecond // a p99 above it is a fault
)

// examineSyncTimes measures how long the journal's disk takes to sync (fdatasync), because every acknowledgement waits
// for a sync.
func examineSyncTimes(ctx context.Context, p Target) []Finding {
	file, err := os.CreateTemp(nearestFolder(p.journalFolder()), ".doctor-")
	if err != nil {
		return []Finding{{Bad, "data folder", err.Error(), "writable", "change the owner with chown to the user that runs Muster"}}
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, 16<<10)
	var times []time.Duration
	for began := time.Now(); len(times) < maxSyncs && time.Since(began) < syncPeriod && ctx.Err() == nil; {
		if _, err := file.Write(block); err != nil {
			return []Finding{{Bad, "write to the data folder", err.Error(), "", "free disk space"}}
		}
		start := time.Now()
		if err := syncData(file); err != nil {
			return []Finding{{Bad, "fdatasync", err.Error(), "", "check the disk: dmesg | tail"}}
		}
		times = append(times, time.Since(start))
	}
	return rateSyncTimes(times)
}

// rateSyncTimes returns a finding about how long syncs of the journal's disk (fdatasync) took. Without times it
// returns no finding.
func rateSyncTimes(times []time.Duration) []Finding {
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	name, slow := "worst", times[len(times)-1]
	if len(times) >= minForP99 {
		name, slow = "p99", times[len(times)*99/100]
	}
	f := Finding{Fine, "fdatasync", fmt.Sprintf("p50 %s, %s %s of %d", formatMillis(times[len(times)/2]), name, formatMillis(slow), len(times)),
		"p99 below 50 ms: every acknowledgement waits for one sync", ""}
	return f.failUnless(slow <= slowSync, Warn, "put the journal on a faster disk: --journal DIR")
}

// formatMillis formats a short time for people, such as 0.34 ms or 12 ms.
func formatMillis(d time.Duration) string {
	ms := float64(d) / 1e6
	if ms < 10 {
		return fmt.Sprintf("%.2g ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// maxHistoryLag is the largest lag of history that is no fault.
const maxHistoryLag = 30 * time.Second

// examineHistoryLag checks how far the history database is behind the journal
func examineHistoryLag(ctx context.Context, p Target) []Finding {
	page := openAdminPage(ctx, p, "/metrics", 5*time.Second)
	if page == nil {
		return nil
	}
	defer page.Close()
	values := readGauges(page, "muster_dispatch_behind_seconds", "muster_dispatch_behind_bytes", "muster_dispatch_rederiving")
	seconds, ok := values["muster_dispatch_behind_seconds"]
	if !ok {
		return nil
	}
	lag := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	f := Finding{Fine, "history", "keeps up", "", ""}
	rebuilding := values["muster_dispatch_rederiving"] > 0
	if lag > maxHistoryLag || rebuilding {
		f = Finding{Warn, "history", fmt.Sprintf("%s behind: the journal must keep %s", lag, formatSize(int64(values["muster_dispatch_behind_bytes"]))),
			fmt.Sprintf("less than %s: notifications are delayed by the lag", maxHistoryLag), "muster status"}
		if rebuilding {
			f.Measured += "; its queue overflowed, the server rebuilds changes from the journal"
		}
	}
	return []Finding{f}
}

// readGauges reads the values of the named gauges from a text page of Prometheus metrics.
func readGauges(page io.Reader, names ...string) map[string]float64 {
	out := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(page, 16<<20))
	for lines.Scan() {
		for _, name := range names {
			if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
				if value, err := strconv.ParseFloat(text, 64); err == nil {
					out[name] = value
				}
			}
		}
	}
	return out
}

// examineSeries finds a missing folder or damaged blocks of the series store (items' numbers). It also finds damaged
// blocks that the server has set aside.
func examineSeries(p Target) (out []Finding) {
	folder := filepath.Join(p.Data, "series")
	_, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(p.journalFolder()); err != nil {
			return nil // no server has run here
		}
		return []Finding{{Warn, "series store", folder + " is missing", "the values of items",
			"stop the server and restore the folder from a backup, or wait: the server creates the folder anew, with the values since"}}
	case err != nil:
		return []Finding{{Bad, "series store", err.Error(), "readable", "change the owner with chown to the user that runs Muster"}}
	}
	damaged, _ := filepath.Glob(filepath.Join(folder, "*.damaged")) // the pattern is valid
	heads, _ := filepath.Glob(filepath.Join(folder, "head", "*.damaged"))
	trends, _ := filepath.Glob(filepath.Join(folder, "trends", "*.damaged"))
	for _, path := range slices.Concat(damaged, heads, trends) {
		out = append(out, Finding{Warn, "series store", "cannot read " + path + ": its values are missing in queries", "undamaged blocks",
			"stop the server and restore the block from a backup, without .damaged in its name; or delete the block: rm -r " + path})
	}
	return append(out, Finding{Fine, "series store", formatSize(folderSize(folder)) + " in " + folder, "", ""})
}

// AssetsPath is the page of the admin listener with the faults of Asset archives.
const AssetsPath = "/debug/assets"

// Assets is the decoded JSON page of the admin listener about Assets that agents cannot download.
type Assets struct {
	Archives int                `json:"archives"` // that Assets name
	Unread   int                `json:"unread"`   // archives among them that the time did not allow to read
	Wrong    []UnavailableAsset `json:"wrong"`
}

// UnavailableAsset is an Asset whose archive agents cannot download, with the reason.
type UnavailableAsset struct {
	Asset   string `json:"asset"` // NAMESPACE/NAME
	For     string `json:"for"`   // the machines; empty: all
	Trouble string `json:"trouble"`
	Mend    string `json:"mend"`
}

// LookAtAssets bounds the time of a server to read archives for one answer.
const LookAtAssets = 20 * time.Second

// shownAssets is how many wrong archives are findings of their own.
const shownAssets = 20

// examineAssets finds archives of Assets that agents cannot get.
func examineAssets(ctx context.Context, p Target) (out []Finding) {
	page := openAdminPage(ctx, p, AssetsPath, LookAtAssets+10*time.Second)
	if page == nil {
		return nil
	}
	defer page.Close()
	var a Assets
	if json.NewDecoder(io.LimitReader(page, 16<<20)).Decode(&a) != nil || a.Archives == 0 {
		return nil
	}
	const needed = "the complete archive on the server, which checks and handlers need"
	for i, w := range a.Wrong {
		if i == shownAssets {
			return append(out, Finding{Warn, "assets", fmt.Sprintf("%d more unusable archives", len(a.Wrong)-i), needed, "muster asset list"})
		}
		name := "asset " + w.Asset
		if w.For != "" {
			name += " for " + w.For
		}
		out = append(out, Finding{Warn, name, w.Trouble, needed, w.Mend})
	}
	switch {
	case len(out) > 0:
		return out
	case a.Unread > 0:
		return []Finding{{Fine, "assets", fmt.Sprintf("%d archives, all present; %d not verified within the time limit", a.Archives, a.Unread), "", ""}}
	}
	return []Finding{{Fine, "assets", fmt.Sprintf("%d archives, all complete", a.Archives), "", ""}}
}
