package usage

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// Metrics sums a server's /metrics by name; nil where there are none.
func Metrics(admin string) map[string]float64 {
	sums, _ := scrape(admin)
	return sums
}

// scrape reads a server's /metrics: sums by name, and the depths of queues by theirs.
func scrape(admin string) (sums, queues map[string]float64) {
	if admin == "" {
		return nil, nil
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(admin + "/metrics")
	if err != nil {
		return nil, nil
	}
	defer resp.Body.Close()
	sums, queues = map[string]float64{}, map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "#") {
			continue
		}
		full, _, _ := strings.Cut(text, " ")
		name, labels, _ := strings.Cut(full, "{")
		v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		if err != nil || strings.HasSuffix(name, "_bucket") {
			continue
		}
		sums[name] += v
		if _, queue, ok := strings.Cut(labels, `queue="`); ok && name == "muster_queue_depth" {
			queue, _, _ = strings.Cut(queue, `"`)
			queues[queue] = v
		}
	}
	return sums, queues
}

// Meter reads a server's metrics every second, beside who wants to know: a server that is
// stopped answers nobody.
type Meter struct {
	Admin string // its address; empty: nothing is read
	mu    sync.Mutex
	last  Metered
}

type Metered struct {
	At           time.Time
	Sums, Queues map[string]float64
}

func (m *Meter) Run(ctx context.Context) {
	for m.Admin != "" && ctx.Err() == nil {
		began := time.Now()
		sums, queues := scrape(m.Admin)
		if sums != nil {
			m.mu.Lock()
			m.last = Metered{time.Now(), sums, queues}
			m.mu.Unlock()
		}
		pause.For(ctx, time.Second-time.Since(began))
	}
}

func (m *Meter) Read() Metered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// counter says whether a metric only grows, but for a start of the server. muster_agents_…
// is of the agents that are connected now: its histograms shrink as they go.
func counter(name string) bool {
	if strings.HasPrefix(name, "muster_agents_") {
		return false
	}
	return strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
}
