package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// runHandlerCommand runs the handler's command with the notification on its standard input. Exit code 0 means that the command
// accepted the message; after any other end the message is sent again.
func (o *Sender) runHandlerCommand(ctx context.Context, spec *model.HandlerSpec, m *Message, timeout time.Duration) (Receipt, error) {
	argv := commandArgs(spec.Command)
	receipt := Receipt{Sent: fmt.Sprintf("%q, on its standard input:\n%s\n", argv, m.Payload)}
	if len(argv) == 0 {
		return receipt, FinalError(errors.New("the command of the handler is an empty list"))
	}
	assets, done, err := o.assetFolders(ctx, spec.Assets)
	if err != nil {
		return receipt, err
	}
	defer done()
	out := &outputCapture{limit: 512, tail: true, hider: m.hider.NewText()}
	stdin := bytes.NewReader(m.Payload)
	if !bytes.HasSuffix(m.Payload, []byte("\n")) { // commands that read whole lines, such as cat >> file, need it
		stdin = bytes.NewReader(append(bytes.Clone(m.Payload), '\n'))
	}
	state, err := o.execute(ctx, argsWithAssetPath(argv, assets), environment(os.Environ(), spec.Env, assets, m.Key), stdin, out, out, timeout)
	if state != nil {
		receipt.Answer = strings.TrimSpace(state.String() + "\n" + out.String())
	}
	return receipt, err
}

// execute runs a command of a handler or mutator until its end or the end of ctx. The returned state is nil if the
// command did not start.
func (o *Sender) execute(ctx context.Context, argv, env []string, stdin io.Reader, stdout io.Writer, stderr *outputCapture, timeout time.Duration) (state *os.ProcessState, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = stdin, stdout, stderr, env
	killProcessGroup(cmd)
	cmd.WaitDelay = time.Second // a child process that keeps the output open must not delay the attempt
	if err = o.opts.Guard.Start(cmd); err == nil {
		err = cmd.Wait()
		o.opts.Guard.Release(cmd)
		state = cmd.ProcessState
	}
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil && cmd.ProcessState.Success():
		return state, nil
	case ctx.Err() != nil:
		return state, fmt.Errorf("command timed out after %s%s", timeout, appendOutput(stderr))
	default:
		return state, fmt.Errorf("the command failed: %w%s", err, appendOutput(stderr))
	}
}

// appendOutput returns a colon and a command's error output. Without output the text is empty.
func appendOutput(stderr *outputCapture) string {
	if text := stderr.String(); text != "" {
		return ": " + text
	}
	return ""
}

// environment returns the environment variables with which a command of a handler or mutator runs. The
// variables come from the server (see inheritsVariable), the handler and its assets.
func environment(base []string, own map[string]string, assets []model.AssetDir, key string) []string {
	env := make([]string, 0, len(base)+1)
	for _, kv := range base {
		if name, _, _ := strings.Cut(kv, "="); inheritsVariable(name) {
			env = append(env, kv)
		}
	}
	return append(model.AssetEnvironment(env, own, assets), "MUSTER_IDEMPOTENCY_KEY="+key)
}

// DefaultMutatorTimeout is the time-out of a mutator's command if its spec has none.
const DefaultMutatorTimeout = 10 * time.Second

// Mutate runs a mutator's command with a Sensu event on standard input, and returns the command's output. The
// spec names assets and secrets as NAMESPACE/NAME. The returned list hidden has the secrets for Message.Hidden.
func (o *Sender) Mutate(ctx context.Context, spec *model.MutatorSpec, event []byte) (made []byte, hidden []string, err error) {
	spec, hidden, err = spec.Reveal(o.secretReader(ctx))
	if err != nil {
		return nil, nil, err
	}
	h := hide.New(hidden)
	made, err = o.mutate(ctx, spec, event, h)
	return made, hidden, redactError(err, h)
}

// mutate runs a mutator's command after a download of the command's assets.
func (o *Sender) mutate(ctx context.Context, spec *model.MutatorSpec, event []byte, h *hide.Redactor) ([]byte, error) {
	timeout := time.Duration(spec.Timeout)
	if timeout <= 0 {
		timeout = DefaultMutatorTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	assets, done, err := o.assetFolders(ctx, spec.Assets)
	if err != nil {
		return nil, err
	}
	defer done()
	said, made := &outputCapture{limit: 512, tail: true, hider: h.NewText()}, &outputCapture{limit: filter.MaxMutated}
	if _, err := o.execute(ctx, argsWithAssetPath(commandArgs(spec.Command), assets), environment(os.Environ(), spec.Env, assets, ""), bytes.NewReader(event), made, said, timeout); err != nil {
		return nil, err
	}
	if made.cut {
		return nil, FinalError(fmt.Errorf("the mutator's output has more than %d bytes", filter.MaxMutated))
	}
	return made.buf, nil
}

// outputCapture keeps the beginning (or the end) of a command's output up to a limit, without secrets. It hides
// secrets before it cuts the output.
type outputCapture struct {
	buf   []byte
	limit int // most bytes that buf may have
	tail  bool
	cut   bool           // the output is longer than limit
	hider *hide.Redactor // hides secrets; nil: there are none
}

// Write adds output to the capture and never fails
func (c *outputCapture) Write(p []byte) (int, error) {
	c.add(p, false)
	return len(p), nil
}

// add appends a part of the output up to the size limit, with secrets redacted. last is true for the final part.
func (c *outputCapture) add(p []byte, last bool) {
	if c.hider != nil {
		p = c.hider.RedactNext(p, last)
	}
	if c.tail {
		c.buf = append(c.buf, p[max(0, len(p)-c.limit):]...)
		c.buf = c.buf[max(0, len(c.buf)-c.limit):]
		return
	}
	n := min(len(p), c.limit-len(c.buf))
	c.buf, c.cut = append(c.buf, p[:n]...), c.cut || n < len(p)
}

// String returns the captured output, with a remark where output was cut. No write may follow.
func (c *outputCapture) String() string {
	c.add(nil, true)
	return strings.TrimSpace(string(c.buf))
}

// assetFolders returns the local folders of a command's Assets (archives with programs). A missing Asset may arrive later,
// so the error is a Failure with Asset set, and not final. The caller calls done after the command has ended.
func (o *Sender) assetFolders(ctx context.Context, names []string) (list []model.AssetDir, done func(), err error) {
	switch {
	case len(names) == 0:
		return nil, func() {}, nil
	case o.opts.Assets == nil:
		return nil, nil, errors.New("the server has no asset store")
	}
	list, done, err = o.opts.Assets(ctx, names)
	if err != nil {
		return nil, nil, &Failure{Err: err, Asset: true}
	}
	return list, done, nil
}

// commandArgs returns the arguments that start a handler's command, with /bin/sh for a command of one text. A
// command that is a single text runs in a shell.
func commandArgs(c *model.Command) []string {
	if c.Argv == nil {
		return []string{"/bin/sh", "-c", c.Shell}
	}
	return c.Argv
}

// argsWithAssetPath returns arguments to start a command through a shell, which finds programs of the command's
// Assets.
func argsWithAssetPath(argv []string, assets []model.AssetDir) []string {
	if len(assets) == 0 || len(argv) == 0 || argv[0] == "/bin/sh" {
		return argv
	}
	return append([]string{"/bin/sh", "-c", `exec "$@"`, "sh"}, argv...)
}

// inheritsVariable reports whether a harmless environment variable of the server, such as PATH, is passed to
// handler commands. Only common variables such as PATH are inherited. All others may be secrets, such as
// settings with passwords of databases, values of Secrets (env, fromEnv) or keys of clouds, and handlers may
// belong to any namespace.
func inheritsVariable(name string) bool {
	switch strings.ToUpper(name) {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}
