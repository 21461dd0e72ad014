package subject

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// maxLine bounds one line of a log that is read.
const maxLine = 1 << 20

// CopyLog writes the server's log, or what its admin listener still has of it.
func (s *Subject) CopyLog(ctx context.Context, w io.Writer) error {
	if s.Log == "" {
		if s.Admin == "" {
			return nil
		}
		data, err := s.get(ctx, "/debug/log")
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	file, err := os.Open(s.Log)
	if err != nil {
		return fmt.Errorf("read the server's log: %w", err)
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// CountLog counts a log's lines by level and message, most frequent first. What is no line
// of slog's, such as a stack, is counted as "other".
func CountLog(r io.Reader) ([]report.LogLine, error) {
	counts := map[report.LogLine]uint64{}
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := readLine(lines)
		if text != "" {
			level, message, ok := parseLogLine(text)
			if !ok {
				level, message = "other", "lines of another form"
			}
			counts[report.LogLine{Level: level, Message: message}]++
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the server's log: %w", err)
		}
	}
	list := make([]report.LogLine, 0, len(counts))
	for l, n := range counts {
		l.Count = n
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b report.LogLine) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Message, b.Message))
	})
	return list, nil
}

// readLine returns the next line without its end, cut at maxLine.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) < maxLine {
			line = append(line, part[:min(len(part), maxLine-len(line))]...)
		}
		if err != bufio.ErrBufferFull {
			return strings.TrimRight(string(line), "\r\n"), err
		}
	}
}

// parseLogLine reads level and message of a line that slog wrote, as text or as JSON.
func parseLogLine(text string) (level, message string, ok bool) {
	if strings.HasPrefix(text, "{") {
		var l struct{ Level, Msg string }
		err := json.Unmarshal([]byte(text), &l)
		return l.Level, l.Msg, err == nil && l.Level != "" && l.Msg != ""
	}
	if !strings.HasPrefix(text, "time=") {
		return "", "", false
	}
	for text != "" {
		name, rest, found := strings.Cut(text, "=")
		if !found {
			return "", "", false
		}
		value, after, _ := strings.Cut(rest, " ")
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return "", "", false
			}
			value, _ = strconv.Unquote(quoted)
			after = strings.TrimPrefix(rest[len(quoted):], " ")
		}
		switch name {
		case "level":
			level = value
		case "msg":
			return level, value, level != "" && value != ""
		}
		text = after
	}
	return "", "", false
}
