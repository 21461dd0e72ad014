package measure

import (
	"strconv"
	"strings"
)

// graphite reads "path value time", where time counts seconds and -1 or nothing means now;
// tags stand in the path: disk.used;server=web01;mount=/ 42 1764007200.
func (s *scan) graphite(line string) bool {
	words := strings.Fields(line)
	if len(words) != 2 && len(words) != 3 {
		return false
	}
	value, err := strconv.ParseFloat(words[1], 64)
	if err != nil {
		return false
	}
	at, ok := clock("0", 1)
	if len(words) == 3 {
		at, ok = clock(words[2], 1)
	}
	if !ok {
		return false
	}
	parts := strings.Split(words[0], ";")
	tags, ok := pairs(parts[1:])
	return ok && s.add(parts[0], value, at, tags)
}

// pairs reads words of the form key=value.
func pairs(words []string) (tags map[string]string, ok bool) {
	for _, word := range words {
		k, v, ok := strings.Cut(word, "=")
		if !ok || k == "" {
			return nil, false
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[k] = v
	}
	return tags, true
}
