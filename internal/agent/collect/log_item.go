package collect

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// logItem is the parsed key of an item that follows a log. Such items are log, logrt, log.count and logrt.count.
type logItem struct {
	key      string         // with the values of its macros
	dir      string         // of the files
	base     string         // name of the file; of logrt empty
	names    *regexp.Regexp // of the names of files; of log nil
	match    *regexp.Regexp // lines; nil: all
	output   string         // template of the values: see expandMatch
	rate     int            // most lines per second: sent, or counted
	skip     bool           // the first collection begins at the end
	maxDelay time.Duration  // a reader that is farther behind leaves lines out; zero: it never does
	count    bool           // the value is the number of lines
}

// Lines per second of an item without a limit of its own.
const (
	defaultLineRate = 1000
	readPerSent     = 10 // lines that are read for each one that may be sent
	maxLineRate     = 10_000
)

// isLogKey reports whether an item key belongs to a log item. A log item may have any number of values per collection.
func isLogKey(name string) bool {
	return slices.Contains([]string{"log", "logrt", "log.count", "logrt.count"}, name)
}

// windowsPath matches absolute paths of Windows.
var windowsPath = regexp.MustCompile(`^([A-Za-z]:[\\/]|\\\\)`)

// splitLogPath splits the path of a log after its folder. In a path of Windows the rest may be a regular expression with
// the character \, so that the longest folder that exists counts, else the last one.
func splitLogPath(path string) (dir, name string) {
	if !windowsPath.MatchString(path) {
		end := strings.LastIndexByte(path, '/')
		return path[:end+1], path[end+1:]
	}
	for end := len(path); ; {
		end = strings.LastIndexAny(path[:end], `\/`)
		if end < 3 {
			end = strings.LastIndexAny(path, `\/`)
			return path[:end+1], path[end+1:]
		}
		if info, err := os.Stat(path[:end+1]); err == nil && info.IsDir() {
			return path[:end+1], path[end+1:]
		}
	}
}

// logOptions are the values of the parameter options. Each of them describes files that a reader follows anyway.
var logOptions = []string{"", "rotate", "copytruncate", "mtime-reread", "mtime-noreread"}

// parseLogItem parses the parameters of a log item's key. root is the folder in place of /.
func parseLogItem(k *Key, text, root string) (*logItem, error) {
	fail := func(format string, args ...any) (*logItem, error) {
		return nil, fmt.Errorf("%s: %s", k.Name, fmt.Sprintf(format, args...))
	}
	l := &logItem{key: text, count: strings.HasSuffix(k.Name, ".count"), rate: defaultLineRate}
	path := k.Parameter(0, "")
	if !strings.HasPrefix(path, "/") && !windowsPath.MatchString(path) {
		return fail("the file %q is not an absolute path; write %s[/var/log/syslog]", path, k.Name)
	}
	dir, name := splitLogPath(path)
	if l.dir, l.base = pathInRoot(root, dir), name; name == "" {
		return fail("the file %q is a folder", path)
	}
	var err error
	if strings.HasPrefix(k.Name, "logrt") {
		if l.names, err = regexp.Compile(name); err != nil {
			return fail("names of files: %v", err)
		}
		l.base = ""
	}
	if pattern := k.Parameter(1, ""); strings.HasPrefix(pattern, "@") {
		return fail("global regular expressions such as %s are not supported; write the expression itself", pattern)
	} else if pattern != "" {
		if l.match, err = regexp.Compile(pattern); err != nil {
			return fail("%v", err)
		}
	}
	if encoding := k.Parameter(2, "UTF-8"); !strings.EqualFold(encoding, "UTF-8") {
		return fail("agents read files in UTF-8 only, not in the encoding %s", encoding)
	}
	if l.count {
		l.rate *= readPerSent
	}
	if text := k.Parameter(3, ""); text != "" {
		if l.rate, err = strconv.Atoi(text); err != nil || l.rate < 1 || l.rate > maxLineRate {
			return fail("the number of lines %q is not between 1 and %d a second", text, maxLineRate)
		}
	}
	switch mode := k.Parameter(4, "all"); mode {
	case "all":
	case "skip":
		l.skip = true
	default:
		return fail("the mode %q is neither all nor skip", mode)
	}
	next := 5
	if !l.count {
		l.output = k.Parameter(next, "")
		next++
	}
	if text := k.Parameter(next, ""); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 0 {
			return fail("the most delay %q is not a number of seconds", text)
		}
		l.maxDelay = time.Duration(seconds) * time.Second
	}
	if option := k.Parameter(next+1, ""); !slices.Contains(logOptions, option) {
		return fail("unknown option %q", option)
	}
	return l, nil
}

// noSingleValue returns an error, because a log item has many values. Wheel.collectLog collects log items.
func noSingleValue(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	return item.Value{}, fmt.Errorf("log item %s has no single value, but one value for each new line", k.Name)
}

// value returns the value of a log item for one line. ok is false if the line does not match the item's regular
// expression.
func (l *logItem) value(line string) (text string, ok bool) {
	if l.match == nil {
		return expandMatch(l.output, line, []int{0, len(line)}), true
	}
	at := l.match.FindStringSubmatchIndex(line)
	if at == nil {
		return "", false
	}
	return expandMatch(l.output, line, at), true
}

// limits returns the maximum numbers of lines that one collection sends (or counts) and reads.
func (l *logItem) limits(interval time.Duration) (sent, read int) {
	sent = max(1, int(float64(l.rate)*min(interval, time.Minute).Seconds()))
	if l.count {
		return sent, sent
	}
	return sent, sent * readPerSent
}

// cleanLine cuts a line to maxText bytes, removes its line break, and replaces invalid UTF-8.
func cleanLine(line []byte) string {
	line = line[:min(len(line), maxText)]
	return strings.ToValidUTF8(strings.TrimRight(string(line), "\r\n"), "\uFFFD")
}

// positionName returns the spool's key for the read position of a log item.
func positionName(unit model.UnitID, key string) string { return fmt.Sprintf("%d/%s", unit, key) }

// TemplateOfPosition returns the Template's id from the name of a log item's stored read position. The result
// is zero if positionName did not make the name.
func TemplateOfPosition(name string) model.UnitID {
	number, _, _ := strings.Cut(name, "/")
	unit, _ := strconv.ParseUint(number, 10, 32)
	return model.UnitID(unit)
}
