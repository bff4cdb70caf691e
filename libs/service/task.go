package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// TaskMode says which calls of a tool continue as tasks, for clients that accept them (extension
// io.modelcontextprotocol/tasks).
//
// A task is kept on the bus: it outlives the client's request, its edge and the instance that runs
// it. If that instance dies, the handler runs again on another one, from its start. Call.ID is the
// same in every run, so the handler can recognise effects that it has already caused. After five
// lost instances the task fails. Only one result ever counts.
type TaskMode int

// Modes of a tool.
const (
	// TaskNever: every call ends with its request.
	TaskNever TaskMode = iota
	// TaskOptional: a task for clients that accept tasks, a plain call for others.
	TaskOptional
	// TaskRequired: always a task. Clients that do not accept tasks are refused.
	TaskRequired
	// TaskOnDemand: the handler decides, with Call.AsTask.
	TaskOnDemand
)

// AsTask makes the call a task, if the client accepts tasks and the tool is TaskOnDemand. It then
// returns an error, which the handler must return unchanged: the call ends, and the handler runs
// again from its start, with the answers it has received. In the task, and for a client that does
// not accept tasks, AsTask returns nil. Cause no effects before it.
func (c *Call) AsTask() error {
	if c.tool == nil || c.tool.task == TaskNever {
		return errors.New("AsTask is for tools with service.TaskOnDemand")
	}
	if c.isTask || !c.takesTasks() {
		return nil
	}
	return errTask
}

// errTask is the error that AsTask returns through the handler.
var errTask = errors.New("the call becomes a task: return this error from the handler")

func (c *Call) takesTasks() bool {
	return mcp.Declares(c.req.GetClient().GetCapabilities(), mcp.ExtensionTasks)
}

// becomes decides whether the call becomes a task before the handler runs.
func (c *Call) becomes(mode TaskMode) error {
	switch {
	case mode == TaskRequired && !c.takesTasks():
		return fault.New(fault.MissingCapability, "this tool needs a client that takes tasks, the extension %s", mcp.ExtensionTasks).With(mcp.Needs(mcp.ExtensionTasks))
	case mode == TaskRequired, mode == TaskOptional:
		return c.AsTask()
	}
	return nil
}

// task ends the call as one that continues as a task.
func (c *Call) task() (proto.Message, error) {
	state, err := c.carry()
	return &busv1.Task{RequestState: state, TimeoutMs: uint64(c.tool.wire.TimeoutMs)}, err
}

// handleTask is one run of a task.
func (r *Running) handleTask(ctx context.Context, req *busv1.Request, say func(string)) (proto.Message, error) {
	call, err := r.newCall(req, status(say))
	if err != nil {
		return nil, err
	}
	call.isTask = true
	return r.service.answer(call.within(ctx), call)
}

// status is the output of a task.
type status func(message string)

func (say status) Progress(p *busv1.Progress) {
	switch {
	case p.Message != "":
		say(p.Message)
	case p.Total != 0:
		say(fmt.Sprintf("%v of %v", p.Progress, p.Total))
	default:
		say(fmt.Sprint(p.Progress))
	}
}

func (status) Log(*busv1.Log) {}

func (status) Disconnect(time.Duration) {}
