"""Multimodal models of the Qwen-VL family, without torchvision."""
