package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// httpAnswer is the policy method that requires a URL to answer as declared.
type httpAnswer struct{ *model.HTTPMethod }

// Bounds of an answer.
const (
	httpTimeout = 10 * time.Second
	maxAnswer   = 1 << 20
)

// check requests the URL and compares the answer with the declaration. No answer is a difference: the service is not
// as declared.
func (m *httpAnswer) check(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error(), nil
	}
	defer answer.Body.Close()
	if want := cmp.Or(m.Status, http.StatusOK); answer.StatusCode != want {
		return fmt.Sprintf("%s answers %d, not %d", m.URL, answer.StatusCode, want), nil
	}
	if m.Contains == "" {
		return "", nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Sprintf("%s: the answer ends early: %v", m.URL, err), nil
	}
	if !strings.Contains(string(body), m.Contains) {
		return fmt.Sprintf("the answer of %s does not contain %q", m.URL, m.Contains), nil
	}
	return "", nil
}

// apply returns an error, because the agent cannot repair the answer of a URL.
func (m *httpAnswer) apply(context.Context) error {
	return errors.New("http only checks: repair the service with a component before it")
}
