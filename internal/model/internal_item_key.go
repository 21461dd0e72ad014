package model

import (
	"fmt"
	"strings"
	"time"
)

// InternalKey is the parsed key of an internal item, such as zabbix[queue,10m]. The item measures the server.
type InternalKey struct {
	Name     string   // the constant parameters: queue, host,agent,available
	From, To Duration // of queue: how late the items are; To zero: or later
}

// internalNames are the constant parameters of the keys of internal items.
var internalNames = []string{
	"boottime", "hosts", "items", "items_unsupported", "preprocessing_queue", "requiredperformance", "triggers", "uptime", "version", "wcache,values", "wcache,values,all",
	"host,,items", "host,,items_unsupported", "host,active_agent,available", "host,agent,available",
}

// defaultQueueFrom is the lateness from which zabbix[queue] counts an item.
const defaultQueueFrom = Duration(6 * time.Second)

// ParseInternalKey parses the key of a server's internal item, such as zabbix[queue,10m]. The error says that the
// server has no such measure.
func ParseInternalKey(key string) (k InternalKey, err error) {
	rest, ok := strings.CutPrefix(key, "zabbix[")
	text, closed := strings.CutSuffix(rest, "]")
	if !ok || !closed {
		return k, fmt.Errorf("the key of an internal item has the form zabbix[NAME,…], such as zabbix[queue,10m]")
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(parts[i]), `"`)
	}
	if parts[0] == "queue" && len(parts) <= 3 {
		k = InternalKey{Name: "queue", From: defaultQueueFrom}
		for i, of := range []*Duration{&k.From, &k.To} {
			if len(parts) <= i+1 || parts[i+1] == "" {
				continue
			}
			text := parts[i+1]
			if strings.Trim(text, "0123456789") == "" {
				text += "s"
			}
			if *of, err = ParseDuration(text); err != nil {
				return k, fmt.Errorf("%s: %w", key, err)
			}
		}
		return k, nil
	}
	k.Name = strings.Join(parts, ",")
	for _, name := range internalNames {
		if name == k.Name {
			return k, nil
		}
	}
	return k, fmt.Errorf("the server does not measure %s; docs/metrics.md has the keys", key)
}
