package load

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// readMetrics sums a server's /metrics by name; nil where there are none.
func readMetrics(admin string) map[string]float64 {
	if admin == "" {
		return nil
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(admin + "/metrics")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "#") {
			continue
		}
		name, _, _ := strings.Cut(text, " ")
		name, _, _ = strings.Cut(name, "{")
		if v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64); err == nil && !strings.HasSuffix(name, "_bucket") {
			sums[name] += v
		}
	}
	return sums
}

// difference is what counters gained, and where gauges stand. A counter below what it
// was is of a server that started anew: it began at nothing.
func difference(before, after map[string]float64) map[string]float64 {
	d := map[string]float64{}
	for name, v := range after {
		if strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count") {
			if was := before[name]; was <= v {
				v -= was
			}
		}
		if v != 0 && strings.HasPrefix(name, "muster_") {
			d[name] = v
		}
	}
	return d
}
