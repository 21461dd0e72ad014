//go:build !unix

package testenv

import (
	"fmt"
	"net"
)

// reservePort checks only that the port is free now: the variant for systems other than Unix.
func reservePort(port int) (release func(), err error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return func() {}, l.Close()
}
