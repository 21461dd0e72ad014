package measure

import (
	"strconv"
	"strings"
)

// opentsdb reads "[put] metric time value tag=value …", where time counts seconds, or
// milliseconds if it has more than ten digits.
func (s *scan) opentsdb(line string) bool {
	words := strings.Fields(line)
	if len(words) > 0 && words[0] == "put" {
		words = words[1:]
	}
	if len(words) < 3 {
		return false
	}
	perSecond := 1.0
	if len(words[1]) > 10 && !strings.Contains(words[1], ".") {
		perSecond = 1000
	}
	at, ok := clock(words[1], perSecond)
	value, err := strconv.ParseFloat(words[2], 64)
	if !ok || err != nil {
		return false
	}
	tags, ok := pairs(words[3:])
	return ok && s.add(words[0], value, at, tags)
}
