"""Answers commands from stdin with pynvml, one line of JSON per command."""

import json
import sys

import pynvml


def describe(index):
    device = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    return {
        "index": pynvml.nvmlDeviceGetIndex(device),
        "uuid": pynvml.nvmlDeviceGetUUID(device),
        "name": pynvml.nvmlDeviceGetName(device),
        "memory_total": memory.total,
        "memory_used": memory.used,
        "minor": pynvml.nvmlDeviceGetMinorNumber(device),
        "pci_bus_id": pynvml.nvmlDeviceGetPciInfo(device).busId,
        "compute_pids": [process.pid for process in processes],
    }


def init():
    pynvml.nvmlInit()


def list_cards():
    return [describe(index) for index in range(pynvml.nvmlDeviceGetCount())]


def subscribe():
    global events
    events = pynvml.nvmlEventSetCreate()
    for index in range(pynvml.nvmlDeviceGetCount()):
        device = pynvml.nvmlDeviceGetHandleByIndex(index)
        pynvml.nvmlDeviceRegisterEvents(device, pynvml.nvmlEventTypeXidCriticalError, events)


def wait(milliseconds):
    event = pynvml.nvmlEventSetWait_v2(events, int(milliseconds))
    return [pynvml.nvmlDeviceGetUUID(event.device), event.eventData]


COMMANDS = {"init": init, "list": list_cards, "subscribe": subscribe, "wait": wait}

for line in sys.stdin:
    command, *arguments = line.split()
    try:
        answer = {"ok": COMMANDS[command](*arguments)}
    except pynvml.NVMLError as error:
        answer = {"error": type(error).__name__}
    print(json.dumps(answer), flush=True)
