package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxHistoryLag is the largest lag of history that is no fault.
const maxHistoryLag = 30 * time.Second

// historyLag reports the lag of history behind the journal, by the server's metrics.
func historyLag(ctx context.Context, p Patient) []Finding {
	page := adminPage(ctx, p, "/metrics", 5*time.Second)
	if page == nil {
		return nil
	}
	defer page.Close()
	values := gauges(page, "muster_react_behind_seconds", "muster_react_behind_bytes", "muster_react_rederiving")
	seconds, ok := values["muster_react_behind_seconds"]
	if !ok {
		return nil
	}
	lag := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	f := Finding{Fine, "history", "keeps up", "", ""}
	rebuilding := values["muster_react_rederiving"] > 0
	if lag > maxHistoryLag || rebuilding {
		f = Finding{Warn, "history", fmt.Sprintf("%s behind: %s of the journal, which cannot be cut", lag, size(int64(values["muster_react_behind_bytes"]))),
			fmt.Sprintf("less than %s: notifications are that late", maxHistoryLag), "muster status"}
		if rebuilding {
			f.Measured += "; its queue overflowed, the server rebuilds changes from the journal"
		}
	}
	return []Finding{f}
}

// gauges reads gauges by name from a page of metrics.
func gauges(page io.Reader, names ...string) map[string]float64 {
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
