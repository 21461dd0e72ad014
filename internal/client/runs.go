package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Run asks for a run and calls fn with each line until the summary, which is the last. The
// end of ctx takes back what still runs.
func (c *Client) Run(ctx context.Context, r v1.RunRequest, fn func(v1.RunLine) error) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	answer, err := c.send(ctx, http.MethodPost, "/api/v1/runs", nil, http.Header{"Accept": {"text/event-stream"}}, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue // a comment that keeps the connection open, or an empty line
		}
		var l v1.RunLine
		if err := json.Unmarshal([]byte(data), &l); err != nil {
			return fmt.Errorf("read run: %w", err)
		}
		if err := fn(l); err != nil || l.Type == v1.RunSummary {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return model.Errorf(model.Unavailable, "the server ended the run before it was done (%v)", orEnd(lines.Err())).
		WithHint("what ran was taken back; what was asked for stands in: muster audit run")
}

func orEnd(err error) error {
	if err == nil {
		return fmt.Errorf("it closed the connection: it stops, or the token was revoked")
	}
	return err
}
