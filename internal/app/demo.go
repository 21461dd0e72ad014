package app

import (
	"context"
	"errors"
)

// demo simulates machines beside this one.
func (s *Server) demo(context.Context, int) error { return errors.New("BUG: no demo yet") }
