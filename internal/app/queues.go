package app

import (
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/queue"
)

// queuesOf makes the registry of queues with the bounds of the configuration.
func queuesOf(cfg *config.Server) *queue.Registry {
	settings, err := queue.ParseSettings(cfg.Queues)
	if err != nil {
		panic("BUG: the configuration was not checked: " + err.Error())
	}
	return queue.NewRegistry(settings)
}

// listFacts registers the queue of facts that the intent store has not written yet.
func (s *Server) listFacts() {
	_, policy := s.queues.Bounds("facts")
	s.queues.Register("facts", func() queue.Info {
		waiting, nodes, ever := s.intent.ReportBacklog()
		return queue.Info{
			Name: "facts", Capacity: int64(nodes), Depth: int64(waiting), Unit: "items", Policy: policy, Passed: ever,
		}
	})
}
