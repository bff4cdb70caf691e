package process

import "runtime"

// keepThread starts a program and waits for it on a thread of its own: Linux tells the
// child of its parent's end when that thread ends.
func keepThread(p *Process, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait()
	close(p.exited)
}
