package agent

import (
	"encoding/json"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
)

// told is what a hook finds on its standard input, if it wants to: the result in Sensu's
// words, as far as the agent knows them.
func (a *Agent) told(c *check, h *model.Hook, result *run.Result) string {
	if !h.Stdin {
		return ""
	}
	type metadata struct {
		Name string `json:"name"`
	}
	var event struct {
		Entity struct {
			Metadata metadata `json:"metadata"`
		} `json:"entity"`
		Check struct {
			Metadata metadata     `json:"metadata"`
			Command  string       `json:"command"`
			Interval int64        `json:"interval"`
			Status   model.Status `json:"status"`
			Output   string       `json:"output"`
			Duration float64      `json:"duration"`
		} `json:"check"`
	}
	if name := a.name.Load(); name != nil {
		event.Entity.Metadata.Name = *name
	}
	event.Check.Metadata.Name, event.Check.Command, event.Check.Interval = c.chunk.Name, c.run.Shell, int64(c.chunk.Interval.Seconds())
	event.Check.Status, event.Check.Output, event.Check.Duration = result.Status, string(result.Output), result.Duration.Seconds()
	text, err := json.Marshal(event)
	if err != nil {
		panic("BUG: a result that is no JSON: " + err.Error())
	}
	return string(text) + "\n"
}
