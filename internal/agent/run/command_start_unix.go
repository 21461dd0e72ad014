//go:build unix

package run

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const rootDir = "/"

var programSuffixes = [...]string{""}

// shellArgv returns the program and arguments for a shell line, with /bin/sh -c.
func shellArgv(line string) []string {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	return []string{"/bin/sh", "-c", line}
}

// checkExecutable returns an error unless a path is a file with execute permission.
func checkExecutable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return nil
}

// setUser prepares the command to run as another user, if runAs names one.
func setUser(cmd *exec.Cmd, runAs string) error {
	if runAs == "" {
		return nil
	}
	who, err := user.Lookup(runAs)
	if err != nil {
		return fmt.Errorf("runAs %s: the user does not exist", runAs)
	}
	uid, errUID := strconv.ParseUint(who.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(who.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		return fmt.Errorf("runAs %s: user id %q or group id %q is not a number", runAs, who.Uid, who.Gid)
	}
	if int(uid) == os.Geteuid() {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("runAs %s: the agent runs as user id %d and only root may change to another; run the agent as root or allow the command in sudoers", runAs, os.Geteuid())
	}
	var groups []uint32
	ids, _ := who.GroupIds() // on an error the command gets only the main group
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			groups = append(groups, uint32(n))
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: groups}}
	return nil
}

// homeVariables returns HOME, USER and LOGNAME of a user as environment variables.
func homeVariables(name string) []string {
	who, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	return []string{"HOME=" + who.HomeDir, "USER=" + name, "LOGNAME=" + name}
}

// terminateGroup sends SIGTERM to a process group.
func terminateGroup(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGTERM); err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return nil
}

// killGroup kills a process group by SIGKILL.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// setNice sets the nice value of a process group.
func setNice(pid, nice int) { _ = unix.Setpriority(unix.PRIO_PGRP, pid, nice) }

// signalOf returns the signal that ended a process. ok is false if the process exited normally.
func signalOf(state *os.ProcessState) (name string, number int, ok bool) {
	status, isUnix := state.Sys().(syscall.WaitStatus)
	if !isUnix || !status.Signaled() {
		return "", 0, false
	}
	return strings.TrimPrefix(unix.SignalName(status.Signal()), "SIG"), int(status.Signal()), true
}
