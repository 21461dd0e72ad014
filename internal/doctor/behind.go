package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// behindMost is how late history may be before it is a finding.
const behindMost = 30 * time.Second

// behind asks the server's metrics how far history is behind what came in.
func behind(ctx context.Context, p Patient) []Finding {
	if p.Admin == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(p.Admin, "/")+"/metrics", nil)
	if err != nil {
		return nil
	}
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return nil // whether it answers is said elsewhere
	}
	defer resp.Body.Close()
	of := gauges(resp.Body, "muster_react_behind_seconds", "muster_react_behind_bytes", "muster_react_rederiving")
	late, ok := of["muster_react_behind_seconds"]
	if resp.StatusCode != http.StatusOK || !ok {
		return nil
	}
	age := time.Duration(late * float64(time.Second)).Round(time.Second)
	f := Finding{Fine, "history", "keeps up with what comes in", "", ""}
	again := of["muster_react_rederiving"] > 0
	if age > behindMost || again {
		f = Finding{Warn, "history", fmt.Sprintf("%s behind: %s of the journal, which cannot be cut", age, about(int64(of["muster_react_behind_bytes"]))),
			fmt.Sprintf("less than %s: problems are told so late", behindMost), "muster status"}
		if again {
			f.Measured += "; its queue overflowed, changes are made again from the journal"
		}
	}
	return []Finding{f}
}

// gauges reads some from a page of metrics.
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
