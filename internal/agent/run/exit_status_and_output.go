package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// exitStatus is the result of a finished command, with status, exit code and cause of an abnormal end.
type exitStatus struct {
	status    model.Status
	cause     string // printed before the output
	note      string // printed after it
	signalled bool
	code      int  // the exit code; -1: none, or the command was killed
	refused   bool // by Allow
}

// unknownStatus returns the result UNKNOWN with its cause, for a command without an exit code.
func unknownStatus(cause string) exitStatus {
	return exitStatus{status: model.Unknown, code: -1, cause: cause}
}

// statusOfExit converts a command's exit code to a check status, as Nagios defines the codes for plug-ins. It
// adds the cause if the command did not exit normally.
func (r *Runner) statusOfExit(state *os.ProcessState, argv []string, c Command, path string, kept []byte) exitStatus {
	v := unknownStatus("the end of the command is unknown: the agent did not see it")
	if state == nil {
		return v
	}
	if name, number, ok := signalOf(state); ok {
		v.signalled, v.cause = true, fmt.Sprintf("killed by signal %d (%s)", number, name)
		return v
	}
	v.code, v.cause = state.ExitCode(), ""
	switch code := v.code; {
	case code >= 0 && code <= 3:
		v.status = model.Status(code)
	case code == 127 && c.Argv == nil:
		v.cause = "exit code 127: the shell did not find a program in PATH" + r.onNodeText() + pathMessage(path)
		if name := notFoundName(kept); name != "" {
			v.cause = r.notFoundMessage(name, path, exec.ErrNotFound)
		}
	case code == 126 && c.Argv == nil:
		v.cause = "exit code 126: the shell found the program but may not execute it" + r.onNodeText()
	case c.AdHoc:
		v.cause = fmt.Sprintf("exit code %d", code)
	default:
		v.cause = fmt.Sprintf("exit code %d: plug-ins exit with 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN)", code)
	}
	return v
}

// onNodeText returns the words " on NODE" with the node's name, for error messages.
func (r *Runner) onNodeText() string {
	if r.Node == nil {
		return ""
	}
	return " on " + r.Node()
}

// notFoundMessage returns the output of a check whose program is missing or not executable. It has a hint.
func (r *Runner) notFoundMessage(name, path string, err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return name + ": found but not executable" + r.onNodeText()
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return name + ": no such file" + r.onNodeText()
	}
	return name + ": not found in PATH" + r.onNodeText() + "\n  install it there, or name its folder to the agent: --plugin-path FOLDER" + pathMessage(path)
}

// pathMessage returns the line "PATH is …" for an error message. It is long, and so follows the first line, which
// tables show.
func pathMessage(path string) string { return "\nPATH is " + path }

// startFailedMessage returns the output of a check whose program could not be started.
func (r *Runner) startFailedMessage(name, runAs string, err error) string {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	as := ""
	if runAs != "" {
		as = " as " + runAs
	}
	return fmt.Sprintf("%s: cannot start%s%s: %v", name, as, r.onNodeText(), err)
}

// notFoundName returns the program's name out of a shell's error message "name: not found".
func notFoundName(kept []byte) string {
	for line := range bytes.Lines(kept) {
		text := strings.TrimSuffix(strings.TrimSpace(string(line)), ": command not found")
		if text = strings.TrimSuffix(text, ": not found"); len(text) < len(strings.TrimSpace(string(line))) {
			return text[strings.LastIndex(": "+text, ": "):]
		}
	}
	return ""
}

// composeOutput joins the agent's error text, the command's output and the note about cut bytes. The result has at
// most keep bytes. It cuts the output at the end of a character, and marks the cut.
func (v exitStatus) composeOutput(kept []byte, total uint64, keep int) (composeOutput []byte, cut uint64) {
	body := bytes.TrimRight(kept, " \t\r\n")
	whole := total == uint64(len(kept))
	composeOutput = make([]byte, 0, min(len(body)+len(v.cause)+len(v.note)+40, keep))
	composeOutput = append(composeOutput, v.cause...)
	if len(body) > 0 {
		if len(composeOutput) > 0 {
			composeOutput = append(composeOutput, '\n')
		}
		head := len(composeOutput)
		composeOutput = appendClean(composeOutput, body)
		if over := len(composeOutput) + len(v.note) + 1 - keep; over > 0 || !whole {
			if whole {
				total = uint64(len(body))
			}
			room := max(head, min(len(composeOutput), keep-cutMarkRoom-len(v.note)))
			for room > head && !utf8.RuneStart(composeOutput[min(room, len(composeOutput)-1)]) {
				room--
			}
			composeOutput = composeOutput[:room]
			cut = total - uint64(min(room-head, len(body)))
			composeOutput = fmt.Appendf(composeOutput, "… [cut %d bytes]", cut)
		}
	}
	if v.note != "" {
		if len(composeOutput) > 0 {
			composeOutput = append(composeOutput, '\n')
		}
		composeOutput = append(composeOutput, v.note...)
	}
	if len(composeOutput) == 0 {
		composeOutput = append(composeOutput, "(no output)"...)
	}
	return composeOutput, cut
}

// cutMarkRoom is the longest line in an output that marks a cut, in bytes with its line break.
const cutMarkRoom = 40

// appendClean appends a command's output to a text, with a replacement character for each invalid or zero byte.
// Invalid bytes and zero bytes become U+FFFD, because databases refuse them.
func appendClean(dst, text []byte) []byte {
	if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
		return append(dst, text...)
	}
	return append(dst, bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))...)
}

// lookPath finds the path of a program in PATH, as a shell does. A name with a slash is a path, any other name
// is searched in the folders of the variable PATH.
func lookPath(name, path string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		return name, checkExecutable(name)
	}
	found := error(exec.ErrNotFound)
	for _, dir := range filepath.SplitList(path) {
		if dir == "" || !filepath.IsAbs(dir) {
			continue // an empty or relative folder: no program of the working directory runs
		}
		for _, suffix := range programSuffixes {
			file := filepath.Join(dir, name+suffix)
			err := checkExecutable(file)
			if err == nil {
				return file, nil
			}
			if errors.Is(err, fs.ErrPermission) {
				found = err
			}
		}
	}
	return "", found
}

// CutText shortens a text to a maximum length and appends a note with the number of bytes removed.
func CutText(text []byte, keep int) (_ []byte, cut uint64) {
	return exitStatus{}.composeOutput(text, uint64(len(text)), keep)
}

// outputBuffer stores the first bytes of a command's output and only counts the rest, to limit the memory.
type outputBuffer struct {
	maxKept int
	tail    []byte
	total   uint64
	flooded bool
	stream  func([]byte)   // receives the kept bytes; may be nil
	hider   *hide.Redactor // redacts secrets first; nil: there are none
}

var errFlood = errors.New("too much output")

// readBuffers has read buffers.
var readBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// ReadFrom reads the output pipe of a command to its end, and closes the pipe after 256 MiB.
func (o *outputBuffer) ReadFrom(r io.Reader) (n int64, err error) {
	buf := readBuffers.Get().(*[32 << 10]byte)
	defer readBuffers.Put(buf)
	for {
		m, err := r.Read(buf[:])
		n += int64(m)
		o.addBytes(buf[:m])
		if o.total > drainLimit {
			o.flooded = true
			return n, errFlood // the pipe is closed: the command gets SIGPIPE
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Write appends a piece of a command's output, with secrets redacted.
func (o *outputBuffer) Write(p []byte) (int, error) {
	o.addBytes(p)
	return len(p), nil
}

// addBytes redacts secrets in a piece of output, counts its bytes and stores the piece.
func (o *outputBuffer) addBytes(p []byte) {
	o.total += uint64(len(p))
	if o.hider != nil && o.maxKept > len(o.tail) {
		p = o.redactBytes(p, false)
	}
	o.storeBytes(p)
}

// redactBytes redacts secrets in a piece of output. It holds back the end of the piece if a secret may start there. A
// redacted secret counts with its replacement's length.
func (o *outputBuffer) redactBytes(p []byte, last bool) []byte {
	before := len(p) + o.hider.BufferedLength()
	p = o.hider.RedactNext(p, last)
	o.total = uint64(max(0, int64(o.total)+int64(len(p)+o.hider.BufferedLength()-before)))
	return p
}

// flushRedactor appends the bytes in the redactor's buffer to the output, with secrets redacted. The redactor buffers
// the last bytes, because a secret may start in them.
func (o *outputBuffer) flushRedactor() {
	if o.hider != nil && o.maxKept > len(o.tail) {
		o.storeBytes(o.redactBytes(nil, true))
	}
}

// storeBytes stores output up to the limit, and passes the output on to the requesters of the run.
func (o *outputBuffer) storeBytes(p []byte) {
	if room := o.maxKept - len(o.tail); room > 0 {
		p = p[:min(room, len(p))]
		o.tail = append(o.tail, p...)
		if o.stream != nil && len(p) > 0 {
			o.stream(p)
		}
	}
}
